// Objects placed without a linker's library: all of ours are, nothing else is, and damage is refused.
#include "runtime/cpu/elf_object.hpp"

#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "compiler/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "runtime/cpu/llvm_compiler.hpp"

using namespace stepfuse;

namespace {

std::string object_of(const RecipeOptions& options, const std::string& level) {
  Program p = make_recipe("adamw", options);
  std::vector<Signature> signatures = {only_signature(p)};
  Schedule s = make_schedule(optimize(p, signatures), {.signatures = signatures});
  CpuTarget target = cpu_target(level);
  return compile_cpu(emit_llvm(s, target), target).bytes;
}

// "r-xp" of the mapping that an address is in.
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

#if defined(__x86_64__)
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
      // Half of them in the headers, symbols and relocations, which stand at the end.
      size_t from = i % 2 == 0 ? 0 : whole.size() * 2 / 3;
      size_t at = from + random() % (whole.size() - from);
      bad[at] = static_cast<char>(random());
    }
    ElfObject::load(bad);
  }
}
#endif
