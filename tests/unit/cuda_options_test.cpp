// The CUDA emitter's options: names, refusals, and their effect on the text.
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

Variant variant_of(const RecipeOptions& options, const std::vector<DType>& grads,
                   Form form = Form::fused) {
  Program program = make_recipe("adamw", options);
  std::vector<Signature> signatures = signatures_of(program, grads);
  return make_variant(optimize(program, signatures), signatures, form);
}

void refused(const CudaOptions& base, const std::string& text, const std::string& says) {
  try {
    check(with_options(base, text));
    FAIL_CHECK(text, " was taken");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::usage);
    CHECK_MESSAGE(std::string(e.what()).find(says) != std::string::npos, e.what());
  }
}

// The generated part of the text with one option.
std::string text_with(const std::string& option, int arch = 100) {
  static const Variant variant = variant_of({.clip = Clip::l2}, {DType::f32});
  std::string text = emit_cuda(variant.plan, with_options({.arch = arch}, option));
  return text.substr(text.find("extern \"C\" __global__"));
}

}  // namespace

TEST_CASE("options are printed as they are read") {
  CHECK(print(CudaOptions{}) == "min-blocks=3,unroll=1,cache=normal,access=128,reverse=on");
  CHECK(with_options({}, "") == CudaOptions{});
  CudaOptions all{.min_blocks = 2,
                  .unroll = 2,
                  .cache = CudaCache::evict_first,
                  .access = 256,
                  .reverse = false};
  CHECK(with_options({}, print(all)) == all);
  CHECK(with_options(all, "reverse=on,unroll=1").unroll == 1);
}

TEST_CASE("what there is not is refused by name") {
  refused({}, "unroll=3", "'unroll=3'");
  refused({}, "unroll", "'unroll'");
  refused({}, "speed=high", "min-blocks=1|2|3|4");
  refused({.arch = 90}, "access=256", "access=256: sm_90");
  refused({.arch = 75}, "cache=evict-first", "cache=evict-first: sm_75");
  CHECK_THROWS_AS(text_with("access=256", 90), Error);
}

TEST_CASE("each option does what it says") {
  std::string plain = text_with("");
  CHECK(has(plain, "__launch_bounds__(kThreads, 3)"));
  CHECK(has(text_with("min-blocks=2"), "__launch_bounds__(kThreads, 2)"));
  CHECK(has(plain, "load<Plain, float, 4, 1>(in_b_exp_avg"));
  CHECK(has(text_with("unroll=2"), "load<Plain, float, 4, 2>(in_b_exp_avg"));
  CHECK(has(text_with("access=256"), "load<Plain, float, 8, 1>(in_b_exp_avg"));
  CHECK(has(text_with("unroll=2"), "load_whole<Plain, float, 4, 2>(in_b_exp_avg"));
  CHECK(has(plain, "units - 1 - turn"));
  CHECK_FALSE(has(text_with("reverse=off"), "units - 1 - turn"));
  // Data that is loaded again stays in the caches.
  std::string streaming = text_with("cache=streaming");
  size_t update = streaming.find("phase update");
  CHECK(has(streaming.substr(0, update), "load_whole<Plain, float, 4, 4>(in_b_grad"));
  CHECK(has(streaming.substr(0, update), "load<Plain, float, 4, 2>(in_b_grad"));
  CHECK_FALSE(has(streaming.substr(0, update), "Streaming"));
  CHECK(has(streaming.substr(update), "load<Streaming, float, 4, 1>(in_b_grad"));
  CHECK(has(streaming.substr(update), "store<Streaming, float, 4, 1>(out_b_exp_avg"));
  CHECK_FALSE(has(streaming.substr(update), "Plain"));
  CHECK(has(text_with("cache=evict-first"), "store<EvictFirst, float, 4, 1>(out_b_exp_avg"));
}

// A cast to the type of a buffer that the body itself does not access.
TEST_CASE("signatures that differ in a value's type only do not share a body") {
  RecipeOptions options{.grad = DTypeSet(DType::f16) | DType::f32, .master = true};
  options.clip = Clip::l2;
  options.round_grad = true;
  std::string text =
      emit_cuda(variant_of(options, {DType::f16, DType::f32}, Form::unfused).plan, CudaOptions{});
  size_t clip = text.find("sf_adamw_clip(");
  REQUIRE(clip != text.npos);
  std::string body = text.substr(clip, text.find("extern \"C\"", clip) - clip);
  CHECK(has(body, "switch (chunk.signature)"));
  CHECK(has(body, "f16_from("));
}
