// Objects are loaded without a linker library: all of ours are accepted, all others and damaged
// ones are refused.
#include "runtime/cpu/elf_object.hpp"

#include <cstdint>
#include <cstring>
#include <elf.h>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::string object_of(const RecipeOptions& options, const std::string& level) {
  Program p = make_recipe("adamw", options);
  std::vector<Signature> signatures = signatures_of(p);
  Variant s = make_variant(optimize(p, signatures), signatures);
  CpuTarget target = cpu_target(level);
  return compile_cpu(emit_llvm(s.plan, target), target).bytes;
}

// The protection of an address's mapping, as in "r-xp".
std::string protection_of(const void* address) {
  auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string flags;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> flags;
    if (wanted >= begin && wanted < end) return flags;
  }
  return "";
}

}  // namespace

#if defined(__x86_64__) || defined(__aarch64__)
TEST_CASE(
    "every kernel of ours is placed by ourselves, and never writable and executable at once") {
  if (!llvm_status().available) {
    MESSAGE("skipped: " << llvm_status().problem);
    return;
  }
  const RecipeOptions recipes[] = {
      {},
      {.grad = DType::f16, .master = true, .loss_scale = LossScale::megatron, .clip = Clip::l2},
      {.grad = DType::bf16, .moments = DType::bf16, .clip = Clip::inf, .monitor = true}};
  for (const std::string& level : runnable_cpu_levels()) {
    for (const RecipeOptions& r : recipes) {
      CAPTURE(level);
      auto object = ElfObject::load(object_of(r, level));
      REQUIRE(object != nullptr);
      CHECK(protection_of(object->symbol("sf_finish")) == "r-xp");
      CHECK(object->symbol("sf_nothing") == nullptr);
    }
  }
}

namespace {

// The parts of an object that the tests change: section headers, symbols and relocations.
struct Parts {
  std::string bytes;
  explicit Parts(std::string object) : bytes(std::move(object)) {}

  template <class T>
  T at(size_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  template <class T>
  void put(size_t offset, const T& value) {
    std::memcpy(bytes.data() + offset, &value, sizeof value);
  }
  // The index of the first section for which `wanted` is true.
  template <class F>
  size_t find_section(F wanted) const {
    auto header = at<Elf64_Ehdr>(0);
    for (size_t i = 0; i < header.e_shnum; ++i) {
      if (wanted(section(i))) return i;
    }
    return 0;
  }
  Elf64_Shdr section(size_t i) const {
    return at<Elf64_Shdr>(at<Elf64_Ehdr>(0).e_shoff + i * sizeof(Elf64_Shdr));
  }
  size_t symbol_offset(std::string_view name) const {
    Elf64_Shdr table =
        section(find_section([](const Elf64_Shdr& s) { return s.sh_type == SHT_SYMTAB; }));
    for (size_t i = 0; i < table.sh_size; i += sizeof(Elf64_Sym)) {
      auto symbol = at<Elf64_Sym>(table.sh_offset + i);
      if (name == bytes.data() + section(table.sh_link).sh_offset + symbol.st_name) {
        return table.sh_offset + i;
      }
    }
    return 0;
  }
};

}  // namespace

TEST_CASE("a function is a symbol within executable pages, and nothing else is") {
  if (!llvm_status().available) {
    MESSAGE("skipped: " << llvm_status().problem);
    return;
  }
  const Parts whole(object_of({.clip = Clip::l2}, "host"));
  const size_t at = whole.symbol_offset("sf_finish");
  REQUIRE(at != 0);
  const auto symbol = whole.at<Elf64_Sym>(at);
  const uint64_t end = whole.section(symbol.st_shndx).sh_size;
  size_t constants = whole.find_section([](const Elf64_Shdr& s) {
    return s.sh_type == SHT_PROGBITS && (s.sh_flags & SHF_ALLOC) != 0 &&
           (s.sh_flags & SHF_EXECINSTR) == 0 && s.sh_size > 0;
  });
  REQUIRE(constants != 0);
  auto loaded = [&](auto change) {
    Parts p = whole;
    Elf64_Sym s = symbol;
    change(s);
    p.put(at, s);
    auto object = ElfObject::load(p.bytes);
    return object != nullptr && object->symbol("sf_finish") != nullptr;
  };
  CHECK(loaded([](Elf64_Sym&) {}));
  CHECK(!loaded([&](Elf64_Sym& s) {
    s.st_shndx = static_cast<uint16_t>(constants);
    s.st_value = s.st_size = 0;
  }));
  CHECK(!loaded([&](Elf64_Sym& s) { s.st_value = end, s.st_size = 0; }));
  CHECK(!loaded([&](Elf64_Sym& s) { s.st_value = end + 1, s.st_size = 0; }));
  CHECK(loaded([&](Elf64_Sym& s) { s.st_value = end - 1, s.st_size = 1; }));
  CHECK(!loaded([&](Elf64_Sym& s) { s.st_size = end - s.st_value + 1; }));
}

TEST_CASE("a relocation that would reach beyond its field, or beyond numbers, is refused") {
  if (!llvm_status().available) {
    MESSAGE("skipped: " << llvm_status().problem);
    return;
  }
  const Parts whole(object_of({.clip = Clip::l2}, "host"));
  size_t list = whole.find_section([&](const Elf64_Shdr& s) {
    return s.sh_type == SHT_RELA && (whole.section(s.sh_info).sh_flags & SHF_EXECINSTR) != 0;
  });
  REQUIRE(list != 0);
  size_t at = whole.section(list).sh_offset;
  const auto relocation = whole.at<Elf64_Rela>(at);
  for (int64_t addend : {INT64_MAX, INT64_MIN, int64_t{1} << 32, -(int64_t{1} << 32)}) {
    CAPTURE(addend);
    Parts p = whole;
    Elf64_Rela changed = relocation;
    changed.r_addend = addend;
    p.put(at, changed);
    CHECK(ElfObject::load(p.bytes) == nullptr);
  }
}

TEST_CASE("a damaged object is refused or harmless to load") {
  CHECK(ElfObject::load("") == nullptr);
  CHECK(ElfObject::load("not an object, but long enough to hold an ELF header: 0123456789") ==
        nullptr);
  if (!llvm_status().available) {
    MESSAGE("skipped: " << llvm_status().problem);
    return;
  }
  std::string whole = object_of({.clip = Clip::l2}, "host");
  for (size_t n = 0; n < whole.size(); n += 7) {
    CHECK(ElfObject::load(std::string_view(whole).substr(0, n)) == nullptr);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string bad = whole;
    for (int k = 0; k < 1 + i % 3; ++k) {
      // Half of the changes hit headers, symbols and relocations, which are at the end.
      size_t from = i % 2 == 0 ? 0 : whole.size() * 2 / 3;
      size_t at = from + random() % (whole.size() - from);
      bad[at] = static_cast<char>(random());
    }
    ElfObject::load(bad);
  }
}
#endif
