// Checks that kernel texts do not repeat code that could be shared. Knows the compiler.
#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "compiler/llvm/emit.hpp"
#include "compiler/variant.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Three stores under one per-tensor condition, which the kernel tests first, and `stores` under a
// second one.
std::string kernel_with(int stores) {
  std::string text = R"(step @flags {
  buffer @a : f32 inout
  buffer @b : f32 out
  buffer @c : f32 out
  buffer @d : f32 out
  buffer @e : f32 out
  state @most : <bool>
  state @some : <bool>
  %most = read @most : <bool>
  %some = read @some : <bool>
  %a = load @a : [f32]
  %x = add %a, %a : [f32]
  store @a, %x if %most
  store @b, %x if %most
  store @c, %x if %most
  store @d, %x if %some
)";
  if (stores > 1) text += "  store @e, %x if %some\n";
  Program p = parse(text + "}\n");
  KernelPlan plan = make_variant(p, signatures_of(p), Form::fused).plan;
  return emit_llvm(plan, {.cpu = "x86-64-v3", .features = "+avx2,+f16c,+fma", .vector_bits = 256});
}

int count(std::string_view text, std::string_view part) {
  int found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("stores under one condition share a branch") {
  std::string one = kernel_with(1), two = kernel_with(2);
  REQUIRE(count(one, "label %store.end") > 0);
  CHECK(count(two, "label %store.end") == count(one, "label %store.end"));
}
