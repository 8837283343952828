// Pass bind dtypes: a buffer with one storage type in all signatures becomes concrete. Knows ir and
// the passes.
#include "compiler/passes/passes.hpp"
#include "tests/support/messages.hpp"
#include "tests/unit/pass_testing.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;
using stepfuse::testing::check_pass;

namespace {
constexpr const char* kMixed = R"(  buffer @grad : f16|bf16|f32 in
  buffer @copy : f16|bf16 out
  buffer @w : f32 inout
  %g = load @grad : [@grad]
  %g32 = cast %g : [f32]
  %w0 = load @w : [f32]
  %w1 = sub %w0, %g32 : [f32]
  store @w, %w1
  %c = cast %w1 : [@copy]
  store @copy, %c
)";

auto bind_to(std::vector<Signature> signatures) {
  return [signatures](const Program& p) { return bind_dtypes(p, signatures); };
}

std::string error_of(std::vector<Signature> signatures) {
  return message_of(ErrorKind::compile, [&] { bind_dtypes(parse_body(kMixed), signatures); });
}
}  // namespace

TEST_CASE("bind dtypes: one signature makes every type concrete, casts included") {
  check_pass(bind_to({{DType::f16, DType::bf16, DType::f32}}), kMixed,
             R"(  buffer @grad : f16 in
  buffer @copy : bf16 out
  buffer @w : f32 inout
  %g = load @grad : [f16]
  %g32 = cast %g : [f32]
  %w0 = load @w : [f32]
  %w1 = sub %w0, %g32 : [f32]
  store @w, %w1
  %c = cast %w1 : [bf16]
  store @copy, %c
)");
}

TEST_CASE("bind dtypes: a buffer bound to f32 keeps its cast, now an identity") {
  check_pass(bind_to({{DType::f32, DType::f16, DType::f32}}), kMixed,
             R"(  buffer @grad : f32 in
  buffer @copy : f16 out
  buffer @w : f32 inout
  %g = load @grad : [f32]
  %g32 = cast %g : [f32]
  %w0 = load @w : [f32]
  %w1 = sub %w0, %g32 : [f32]
  store @w, %w1
  %c = cast %w1 : [f16]
  store @copy, %c
)");
}

TEST_CASE("bind dtypes: what differs between signatures stays bound, narrowed to what is used") {
  check_pass(
      bind_to({{DType::f16, DType::bf16, DType::f32}, {DType::f32, DType::bf16, DType::f32}}),
      kMixed, R"(  buffer @grad : f16|f32 in
  buffer @copy : bf16 out
  buffer @w : f32 inout
  %g = load @grad : [@grad]
  %g32 = cast %g : [f32]
  %w0 = load @w : [f32]
  %w1 = sub %w0, %g32 : [f32]
  store @w, %w1
  %c = cast %w1 : [bf16]
  store @copy, %c
)");
}

TEST_CASE("bind dtypes: without signatures nothing is bound") {
  check_pass(bind_to({}), kMixed, kMixed);
}

TEST_CASE("bind dtypes: a signature that does not fit is the user's error") {
  CHECK(error_of({{DType::f64, DType::bf16, DType::f32}}) ==
        "buffer @grad is bound to f64, which its declaration does not list");
  CHECK(error_of({{DType::f16, DType::f16, DType::f16}}) ==
        "buffer @w is bound to f16, which its declaration does not list");
  CHECK(error_of({{DType::f16}}) == "a signature names 1 storage types, but step @t has 3 buffers");
}
