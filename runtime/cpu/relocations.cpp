// Relocations as the ABI documents of both machines define them. Knows the ELF format's numbers.
#include "runtime/cpu/relocations.hpp"

#include <cstring>
#include <elf.h>

namespace stepfuse {
namespace {

template <class T>
bool put(char* place, T value) {
  std::memcpy(place, &value, sizeof value);
  return true;
}

// A distance that does not fit is refused, because the conversion would hide it.
bool put_distance(char* place, int64_t target, int64_t address) {
  int32_t narrow = 0;
  return !__builtin_sub_overflow(target, address, &narrow) && put(place, narrow);
}

// Replaces `bits` bits of the instruction from bit `at` on.
void set_field(char* place, int at, int bits, uint64_t value) {
  uint32_t instruction = 0;
  std::memcpy(&instruction, place, sizeof instruction);
  uint32_t mask = ((uint32_t{1} << bits) - 1) << at;
  instruction = (instruction & ~mask) | (static_cast<uint32_t>(value << at) & mask);
  put(place, instruction);
}

bool fits(int64_t value, int bits) {
  int64_t limit = int64_t{1} << (bits - 1);
  return value >= -limit && value < limit;
}

// The immediate of ADR and ADRP, whose two low bits are apart from the others.
bool set_address(char* place, int64_t value) {
  if (!fits(value, 21)) return false;
  set_field(place, 29, 2, static_cast<uint64_t>(value) & 3U);
  set_field(place, 5, 19, static_cast<uint64_t>(value) >> 2U);
  return true;
}

bool set_branch(char* place, int64_t distance) {
  if (distance % 4 != 0 || !fits(distance, 28)) return false;
  set_field(place, 0, 26, static_cast<uint64_t>(distance) >> 2U);
  return true;
}

// The offset within a page, in units of the bytes that a load or store accesses.
bool set_page_offset(char* place, int64_t target, int scale) {
  uint64_t offset = static_cast<uint64_t>(target) & 0xfffU;
  if (offset % (uint64_t{1} << scale) != 0) return false;
  set_field(place, 10, 12, offset >> scale);
  return true;
}

bool apply_x86_64(uint32_t type, int64_t target, int64_t address, char* place) {
  switch (type) {
    case R_X86_64_64:
      return put(place, target);
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
      return put_distance(place, target, address);
    default:
      return false;
  }
}

bool apply_aarch64(uint32_t type, int64_t target, int64_t address, char* place) {
  switch (type) {
    case R_AARCH64_ABS64:
      return put(place, target);
    case R_AARCH64_PREL32:
      return put_distance(place, target, address);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26:
      return set_branch(place, target - address);
    case R_AARCH64_ADR_PREL_LO21:
      return set_address(place, target - address);
    case R_AARCH64_ADR_PREL_PG_HI21:
      return set_address(place, (target >> 12) - (address >> 12));
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return set_page_offset(place, target, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return set_page_offset(place, target, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return set_page_offset(place, target, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return set_page_offset(place, target, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return set_page_offset(place, target, 4);
    default:
      return false;
  }
}

}  // namespace

size_t relocation_bytes(uint16_t machine, uint32_t type) {
  // Whether a type is known does not depend on the numbers.
  char bytes[8] = {};
  if (machine == EM_X86_64) {
    if (!apply_x86_64(type, 0, 0, bytes)) return 0;
    return type == R_X86_64_64 ? 8 : 4;
  }
  if (machine != EM_AARCH64 || !apply_aarch64(type, 0, 0, bytes)) return 0;
  return type == R_AARCH64_ABS64 ? 8 : 4;
}

bool apply_relocation(uint16_t machine, uint32_t type, int64_t target, int64_t address,
                      char* place) {
  if (machine == EM_X86_64) return apply_x86_64(type, target, address, place);
  return machine == EM_AARCH64 && apply_aarch64(type, target, address, place);
}

}  // namespace stepfuse
