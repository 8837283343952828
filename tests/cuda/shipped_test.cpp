// Kernels compiled ahead of time on a device: they belong to one context, and one that the driver
// refuses is passed over.
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "runtime/caches/kernel_folder.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/step_code.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/trainer.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const Trainer::Sizes kSizes = {300, 1, 17};

// Ships what this step would compile, or `instead` of it.
void ship_for(const Step& step, const std::string& folder, const std::string& instead = "") {
  const Variant& variant = Internals::of(step).plan->variant;
  cuda::CodeTarget target = cuda::choose_target(cuda::Context(1).device().arch);
  REQUIRE(target.kind == cuda::CodeKind::ptx);
  std::string text = cuda::first_text(variant.plan, target);
  std::string name = fmt::format("compute_{}", target.arch);
  ship(folder, name, shipped_preimage(variant, name, "", text),
       instead.empty() ? cuda::compile_fresh(variant, target).code : instead);
}

std::vector<float> learn(const Device& device, bool shipped) {
  Trainer t(device, Form::fused, kSizes);
  CHECK(t.step().compile_report().from_kernel_folder == shipped);
  for (int i = 0; i < 3; ++i) t.run(i, 0);
  return t.weights();
}

}  // namespace

TEST_CASE("shipped kernels of a context that was destroyed are not those of the next") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  ScratchFolder folder;
  ship_for(Trainer(Device::cuda(1), Form::fused, kSizes).step(), folder.path());
  use_kernels(folder.path());
  make_context_current(0);
  std::vector<float> want = learn(Device::interpreter(), false);
  CHECK(learn(Device::cuda(1), true) == want);
  void *before = nullptr, *after = nullptr;
  REQUIRE(call_driver("cuDevicePrimaryCtxRetain", &before, 1) == 0);
  REQUIRE(call_driver("cuDevicePrimaryCtxReset_v2", 1) == 0);
  REQUIRE(call_driver("cuDevicePrimaryCtxRetain", &after, 1) == 0);
  REQUIRE(before == after);  // the address says nothing
  CHECK(learn(Device::cuda(1), true) == want);
}

TEST_CASE("a shipped kernel that the driver refuses is passed over") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  ScratchFolder folder;
  ship_for(Trainer(Device::cuda(1), Form::fused, kSizes).step(), folder.path(), "no PTX at all");
  void* context = nullptr;
  REQUIRE(call_driver("cuDevicePrimaryCtxRetain", &context, 1) == 0);
  REQUIRE(call_driver("cuDevicePrimaryCtxReset_v2", 1) ==
          0);  // what it has in memory is no longer its own
  use_kernels(folder.path());
  CHECK(learn(Device::cuda(1), false) == learn(Device::interpreter(), false));
}
