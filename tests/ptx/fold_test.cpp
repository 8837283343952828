// The canonical fold, by executed CUDA kernels: what ir/semantics/reduction.hpp defines. Knows all layers.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "compiler/cuda/emit.hpp"
#include "ir/semantics/reduction.hpp"
#include "tests/ptx/edited_kernel.hpp"
#include "tests/support/fold_case.hpp"
#include "tests/support/needs_nvrtc.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Results of tensors behind the first phase and behind the last one.
constexpr const char* kOfTensors = R"(step @of_tensors {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  report @sums : <f32>
  report @any : <bool>
  report @after : <f32>
  %g = load @grad : [f32]
  %sum = reduce_add %g : <f32>
  %most = reduce_max %g : <f32>
  %one = const 1 : f32
  %large = lt %one, %g : [bool]
  %any = reduce_any %large : <bool>
  %scale = add %sum, %most : <f32>
  %w = load @weight : [f32]
  %w1 = mul %w, %scale : [f32]
  %after = reduce_add %w1 : <f32>
  store @weight, %w1
  write @sums, %sum
  write @any, %any
  write @after, %after
}
)";

// More tensors than the threads of a block, most of one piece; some have up to four.
TestLayout many_tensors() {
  TestLayout layout{.signatures = {{DType::f32, DType::f32}}, .group_count = 1};
  for (uint64_t t = 0; t < 300; ++t) {
    uint64_t pieces = t % 97 == 5 ? t / 97 : 0;
    layout.tensors.push_back({.size = pieces * kPieceElements + t % 3, .present = t % 11 != 7});
  }
  return layout;
}

// Empty, or what went wrong with `from` in the text replaced by `to`.
std::string run_many(uint32_t blocks, uint64_t seed, const std::string& from = "",
                     const std::string& to = "") {
  Program program = parse(kOfTensors);
  TestLayout layout = many_tensors();
  Variant variant = make_variant(program, layout.signatures, Form::fused);
  TestData input(program, layout, 3, Inputs::normal);
  DeviceRun options{.blocks = blocks, .seed = seed, .zero_workspace = !from.empty()};
  return run_edited(program, std::move(variant), input, options, from, to).any();
}

}  // namespace

TEST_CASE("parts of all sizes are folded as defined: CUDA") {
  STEPFUSE_NEEDS_NVRTC();
  for (bool nan : {false, true}) {
    FoldCase c(nan);
    TestData actual(c.data());
    Variant variant = make_variant(c.program(), c.layout().signatures);
    std::string text = emit_cuda(variant.plan);
    DeviceRunner(std::move(variant), text, 90).run(actual.step(), {.blocks = 2, .seed = 1});
    CHECK(c.difference(actual.step()) == "");
  }
}

TEST_CASE("all blocks fold the results of many tensors together") {
  STEPFUSE_NEEDS_NVRTC();
  for (uint32_t blocks : {1, 2, 3}) CHECK(run_many(blocks, blocks) == "");
  // The block's own way for tensors of several pieces, too.
  CHECK(run_many(2, 7, "kFewValues = 256", "kFewValues = 1") == "");
}

TEST_CASE("faults in the common fold are caught") {
  STEPFUSE_NEEDS_NVRTC();
  const std::string stands = "wait_for(ctx.sync->generation, before);";
  for (uint64_t seed = 0; seed < 3; ++seed) {
    INFO("seed ", seed);
    // The first of its kind is the barrier before the common fold.
    CHECK(run_many(3, seed, stands, "").find("slots") != std::string::npos);
    CHECK(run_many(3, seed, "lanes, blockIdx.x, gridDim.x)", "lanes, 0, gridDim.x)") != "");
    CHECK(run_many(3, seed, "lanes, blockIdx.x, gridDim.x)", "lanes, blockIdx.x, 1)") != "");
  }
}
