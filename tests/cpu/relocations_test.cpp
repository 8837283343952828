// Relocations of both machines, with the instructions that their manuals give.
#include "runtime/cpu/relocations.hpp"

#include <cstring>
#include <elf.h>
#include <optional>

#include <doctest/doctest.h>

using namespace stepfuse;

namespace {

// The value at `address` after the relocation; nothing if it is refused.
std::optional<uint64_t> relocated(uint16_t machine, uint32_t type, uint64_t before, int64_t target,
                                  int64_t address) {
  char place[8];
  std::memcpy(place, &before, sizeof place);
  if (!apply_relocation(machine, type, target, address, place)) return std::nullopt;
  uint64_t after = 0;
  std::memcpy(&after, place, relocation_bytes(machine, type));
  return after;
}
std::optional<uint64_t> arm(uint32_t type, uint64_t before, int64_t target, int64_t address) {
  return relocated(EM_AARCH64, type, before, target, address);
}

}  // namespace

TEST_CASE("x86-64: absolute addresses and distances") {
  constexpr int64_t kFar = int64_t{1} << 40;
  CHECK(relocated(EM_X86_64, R_X86_64_64, 0, kFar, 0x1000) == uint64_t{1} << 40);
  CHECK(relocated(EM_X86_64, R_X86_64_PC32, 0, 0x1000, 0x1010) == 0xfffffff0U);
  CHECK(relocated(EM_X86_64, R_X86_64_PLT32, 0, kFar + INT32_MAX, kFar) == uint64_t{INT32_MAX});
  CHECK(!relocated(EM_X86_64, R_X86_64_PC32, 0, kFar, 0));
  CHECK(!relocated(EM_X86_64, R_X86_64_GOTPCREL, 0, 0, 0));
  CHECK(relocation_bytes(EM_X86_64, R_X86_64_GOTPCREL) == 0);
  CHECK(relocation_bytes(EM_X86_64, R_X86_64_64) == 8);
}

TEST_CASE("AArch64: addresses of constants, a page and an offset at a time") {
  // adrp x8, .+0x3000; a page boundary counts, not the distance.
  CHECK(arm(R_AARCH64_ADR_PREL_PG_HI21, 0x90000008, 0x15001, 0x12fff) == 0xf0000008U);
  CHECK(arm(R_AARCH64_ADR_PREL_PG_HI21, 0x90000008, 0x1000, 0x2000) == 0xf0ffffe8U);
  CHECK(!arm(R_AARCH64_ADR_PREL_PG_HI21, 0x90000008, int64_t{1} << 40, 0));
  CHECK(arm(R_AARCH64_ADR_PREL_LO21, 0x10000000, 0x1006, 0x1000) == 0x50000020U);  // adr x0, .+6
  CHECK(arm(R_AARCH64_ADD_ABS_LO12_NC, 0x91000108, 0x12345, 0) ==
        0x910d1508U);  // add x8, x8, #0x345
  CHECK(arm(R_AARCH64_LDST8_ABS_LO12_NC, 0x39400108, 0x12345, 0) == 0x394d1508U);
  CHECK(arm(R_AARCH64_LDST32_ABS_LO12_NC, 0xbd400100, 0x12344, 0) == 0xbd434500U);
  CHECK(arm(R_AARCH64_LDST64_ABS_LO12_NC, 0xfd400100, 0x12348, 0) == 0xfd41a500U);
  CHECK(arm(R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00100, 0x12340, 0) == 0x3dc0d100U);  // ldr q0
  CHECK(!arm(R_AARCH64_LDST128_ABS_LO12_NC, 0x3dc00100, 0x12348, 0));
  CHECK(arm(R_AARCH64_LDST16_ABS_LO12_NC, 0x79400100, 0x12346, 0) == 0x79468d00U);
}

TEST_CASE("AArch64: calls, distances and absolute addresses") {
  CHECK(arm(R_AARCH64_CALL26, 0x94000000, 0x1008, 0x1000) == 0x94000002U);
  CHECK(arm(R_AARCH64_JUMP26, 0x14000000, 0xffc, 0x1000) == 0x17ffffffU);
  CHECK(!arm(R_AARCH64_CALL26, 0x94000000, 0x1002, 0x1000));
  CHECK(!arm(R_AARCH64_CALL26, 0x94000000, 0x8001000, 0x1000));  // 128 MiB
  CHECK(arm(R_AARCH64_CALL26, 0x94000000, 0x8000ffc, 0x1000) == 0x95ffffffU);
  CHECK(arm(R_AARCH64_PREL32, 0, 0x1000, 0x1004) == 0xfffffffcU);
  CHECK(arm(R_AARCH64_ABS64, 0, 0x123456789abc, 0) == 0x123456789abcU);
  CHECK(relocation_bytes(EM_AARCH64, R_AARCH64_ABS64) == 8);
  CHECK(relocation_bytes(EM_AARCH64, R_AARCH64_ADR_GOT_PAGE) == 0);
  CHECK(relocation_bytes(EM_386, R_386_32) == 0);
}
