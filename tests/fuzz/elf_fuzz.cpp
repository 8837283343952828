// Damaged objects: refused, or placed within their own memory. Knows the ELF loader and the compiler
// that makes whole ones.
#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "runtime/cpu/elf_object.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("fuzz: ELF objects") {
  if (!llvm_status().available) {
    MESSAGE("skipped: " << llvm_status().problem);
    return;
  }
  Program p = make_recipe("adamw", {.clip = Clip::l2});
  std::vector<Signature> signatures = signatures_of(p);
  Variant s = make_variant(optimize(p, signatures), signatures);
  CpuTarget target = cpu_target("host");
  const std::string whole = compile_cpu(emit_llvm(s.plan, target), target).bytes;
  fuzz(20000, [&](Rng& rng) {
    auto object = ElfObject::load(damaged(whole, rng));
    if (!object) return;
    // A call would run damaged code; that it lies in the object is all that can be asked.
    for (const char* name : {"sf_finish", "sf_phase_0", "sf_enter_1"}) {
      const void* at = object->symbol(name);
      CHECK((at == nullptr || object->is_code(at)));
    }
  });
}
