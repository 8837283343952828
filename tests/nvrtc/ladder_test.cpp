// The ladder of launch bounds: its start, the effect of explicit options, and the step down after a
// spill.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "compiler/passes/pass_manager.hpp"
#include "runtime/cuda/step_code.hpp"
#include "runtime/cuda/tuning.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;
using namespace stepfuse::cuda;

namespace {

Variant variant_of(const char* recipe, const RecipeOptions& options) {
  Program program = make_recipe(recipe, options);
  std::vector<Signature> signatures = signatures_of(program);
  return make_variant(optimize(program, signatures), signatures);
}

std::vector<std::string> rungs(const Variant& variant, const std::string& options, int arch = 90) {
  std::vector<std::string> out;
  for (const CudaOptions& rung : launch_ladder(variant.plan, {.arch = arch, .options = options})) {
    CHECK(rung.arch == arch);
    out.push_back(print(rung).substr(0, std::string("min-blocks=3,unroll=1").size()));
  }
  return out;
}

using List = std::vector<std::string>;

}  // namespace

TEST_CASE("the ladder begins where a thread has enough bytes in flight") {
  // AdamW loads 16 bytes per parameter, 64 per tile: enough with four blocks.
  Variant adamw = variant_of("adamw", {.clip = Clip::l2});
  const List three = {"min-blocks=3,unroll=1", "min-blocks=2,unroll=1", "min-blocks=1,unroll=1"};
  List four = three;
  four.insert(four.begin(), "min-blocks=4,unroll=1");
  CHECK(rungs(adamw, "") == four);
  CHECK(rungs(adamw, "", 100) == four);
  CHECK(rungs(adamw, "", 120) == four);
  CHECK(rungs(adamw, "", 86) == three);
  // With the maximum of the second moment it loads 20, which is enough with three blocks.
  CHECK(rungs(variant_of("adamw", {.amsgrad = true}), "") == three);
  // Lion with bf16 gradients and master weights loads 10, 40 per tile.
  Variant lion = variant_of("lion", {.grad = DType::bf16, .master = true});
  CHECK(rungs(lion, "") == List{"min-blocks=3,unroll=2", "min-blocks=3,unroll=1",
                                "min-blocks=2,unroll=1", "min-blocks=1,unroll=1"});
  // SGD without momentum loads 8: four tiles of 4 elements already.
  CHECK(rungs(variant_of("sgd", {}), "")[0] == "min-blocks=3,unroll=1");
}

TEST_CASE("the ladder begins where registers may do") {
  auto with_moments = [](const char* recipe, const char* format) {
    return rungs(variant_of(recipe, {.grad = DType::bf16, .moments = format, .master = true}),
                 "")[0];
  };
  CHECK(with_moments("lion", "int8") == "min-blocks=3,unroll=1");
  CHECK(with_moments("adamw", "exp_avg=fp8") == "min-blocks=3,unroll=2");
  for (const char* two : {"fp8", "exp_avg=int8|exp_avg_sq=sqrt8", "exp_avg=dyn4|exp_avg_sq=lin4"}) {
    CHECK(with_moments("adamw", two) == "min-blocks=3,unroll=1");
  }
}

TEST_CASE("a turn that encodes two values may spill a few words for the sake of a block") {
  STEPFUSE_NEEDS_NVRTC();
  Variant fp8 = variant_of(
      "adamw", {.grad = DType::bf16, .moments = "fp8", .master = true, .clip = Clip::l2});
  StepCode code = compile_fresh(fp8, {.arch = 90});
  REQUIRE(code.kernels.size() == 1);
  CHECK(code.options.min_blocks == 3);
  CHECK(code.kernels[0].spills());
  CHECK(code.kernels[0].spill_store_bytes <= kSpilledWhereEncoded);
  // Many spilled bytes are not accepted.
  StepCode crowded = compile_fresh(fp8, {.arch = 90, .options = "unroll=2"});
  CHECK(crowded.options.min_blocks < 3);
}

TEST_CASE(
    "a turn that encodes two values and draws random numbers fits into a thread's registers") {
  STEPFUSE_NEEDS_NVRTC();
  RecipeOptions options{.grad = DType::bf16,
                        .moments = "exp_avg=dyn4|exp_avg_sq=lin4",
                        .weight_rounding = WeightRounding::stochastic,
                        .clip = Clip::l2};
  Variant variant = variant_of("adamw", options);
  CHECK(compile_fresh(variant, {.arch = 120}).options.min_blocks == 3);
  StepCode code = compile_fresh(variant, {.arch = 75});
  REQUIRE(code.kernels.size() == 1);
  CHECK_FALSE(code.kernels[0].spills());
}

TEST_CASE("named options hold on every rung") {
  Variant adamw = variant_of("adamw", {.clip = Clip::l2});
  CHECK(rungs(adamw, "unroll=2") == List{"min-blocks=4,unroll=2", "min-blocks=3,unroll=2",
                                         "min-blocks=2,unroll=2", "min-blocks=1,unroll=2"});
  CHECK(rungs(adamw, "min-blocks=2") == List{"min-blocks=2,unroll=1"});
  CHECK(rungs(adamw, "min-blocks=4,unroll=2") == List{"min-blocks=4,unroll=2"});
  for (const CudaOptions& rung :
       launch_ladder(adamw.plan, {.arch = 100, .options = "access=256"})) {
    CHECK(rung.access == 256);
  }
}

TEST_CASE("a spill goes down the ladder") {
  STEPFUSE_NEEDS_NVRTC();
  Variant adamw = variant_of("adamw", {.grad = DType::f16, .master = true, .clip = Clip::l2});
  StepCode fixed = compile_fresh(adamw, {.arch = 90, .options = "unroll=2,min-blocks=4"});
  REQUIRE(fixed.kernels.size() == 1);
  CHECK(fixed.kernels[0].spills());  // there is no lower rung
  StepCode free = compile_fresh(adamw, {.arch = 90, .options = "unroll=2"});
  CHECK_FALSE(free.kernels[0].spills());
  CHECK(free.options.min_blocks < 4);
  CHECK(free.options.unroll == 2);
}

TEST_CASE("a device gets a cubin of its own major version, or PTX of the newest arch before it") {
  STEPFUSE_NEEDS_NVRTC();
  unsetenv("STEPFUSE_CUDA_CODE");
  auto target = [](int arch) {
    CodeTarget t = choose_target(arch);
    return std::pair(t.kind, t.arch);
  };
  const std::vector<int>& archs = nvrtc_status().archs;
  for (int arch : archs) CHECK(target(arch) == std::pair(CodeKind::cubin, arch));
  auto newest_before = [&](int arch) {
    return *std::prev(std::upper_bound(archs.begin(), archs.end(), arch));
  };
  for (int major = archs.front() / 10 + 1; major < archs.back() / 10 + 4; ++major) {
    for (int arch = 10 * major; arch < 10 * major + 10; ++arch) {
      CAPTURE(arch);
      int newest = newest_before(arch);
      bool own = newest / 10 == major;
      CHECK(target(arch) == std::pair(own ? CodeKind::cubin : CodeKind::ptx, newest));
    }
  }
  setenv("STEPFUSE_CUDA_CODE", "ptx", 1);
  CHECK(target(archs.back()) == std::pair(CodeKind::ptx, archs.back()));
  // The target stays the device's own arch, which NVRTC then refuses: a cubin of a different major
  // version would not run.
  setenv("STEPFUSE_CUDA_CODE", "cubin", 1);
  CHECK(target(archs.back() + 20) == std::pair(CodeKind::cubin, archs.back() + 20));
  unsetenv("STEPFUSE_CUDA_CODE");
}
