// Which divisions by what elements share a CUDA kernel does without asking how far from 1 their
// numbers are. Knows the emitter.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("a quotient is near where an integer is divided by a constant that is, and only there") {
  Program program = parse(R"(step @s {
  buffer @codes : i8 in
  buffer @g : f32 in
  buffer @most : <f32/32> out
  buffer @out : f32 out
  %code = load @codes : [i8]
  %whole = cast %code : [i32]
  %f = cast %whole : [f32]
  %g = load @g : [f32]
  %size = abs %g : [f32]
  %most = reduce_max %size : <f32/32>
  %near = div %f, 3 : [f32]
  %negative = div %f, -7 : [f32]
  %large = div %f, 6442450944 : [f32]
  %small = div %f, bits(2fffffff) : [f32]
  %float = div %g, 3 : [f32]
  %shared = div %f, %most : [f32]
  %a = add %near, %negative : [f32]
  %b = add %large, %small : [f32]
  %c = add %float, %shared : [f32]
  %d = add %a, %b : [f32]
  %e = add %c, %d : [f32]
  store @most, %most
  store @out, %e
}
)");
  std::vector<Signature> signatures = signatures_of(program);
  std::string text = emit_cuda(make_variant(optimize(program, signatures), signatures).plan);
  auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  CHECK(has("e_near = divided(e_f, s_c_3_f32);"));
  for (std::string name : {"negative", "large", "small", "float", "shared"}) {
    CAPTURE(name);
    size_t at = text.find(fmt::format("e_{} = divided(", name));
    REQUIRE(at != std::string::npos);
    CHECK(text.substr(at, text.find(';', at) - at).ends_with(", far)"));
  }
}
