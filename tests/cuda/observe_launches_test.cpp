// How many kernels a run launches after observe(): one for all tensors that are left and their fold, one
// for the rest; and that tensors without a gradient are not looked at again and again.
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cuda/host_access.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Twenty tensors of one element on the fake device; what is reduced is the sum of their gradients.
struct Sum {
  static constexpr size_t kTensors = 20;
  std::vector<float> weight = std::vector<float>(kTensors), grad = std::vector<float>(kTensors, 1);
  cuda::HostAccess weight_access, grad_access;
  Step step;

  Sum()
      : weight_access(0,
                      std::span(reinterpret_cast<char*>(weight.data()), kTensors * sizeof(float))),
        grad_access(0, std::span(reinterpret_cast<char*>(grad.data()), kTensors * sizeof(float))),
        step(make()) {
    step.prepare();
    step.bind_raw("weight", pointers(weight, {}));
  }
  static Step make() {
    Layout layout;
    for (size_t i = 0; i < kTensors; ++i) layout.add({.elements = 1});
    return Step(parse(R"(step @sum {
                  buffer @grad : f32 in
                  buffer @weight : f32 inout
                  report @total : f32
                  %g = load @grad : [f32]
                  %w = load @weight : [f32]
                  %s = reduce_add %g : f32
                  %n = add %w, %s : [f32]
                  store @weight, %n
                  write @total, %s
                })"),
                layout, Device::cuda(), {.observe = true});
  }
  static std::vector<void*> pointers(std::vector<float>& values,
                                     const std::vector<size_t>& absent) {
    std::vector<void*> out;
    for (float& v : values) out.push_back(&v);
    for (size_t i : absent) out[i] = nullptr;
    return out;
  }
  // Launches of a step whose tensors [first, end) were observed before.
  uint64_t run(size_t first, size_t end, const std::vector<size_t>& absent, double expected) {
    Args args = step.make_args();
    std::vector<void*> g = pointers(grad, absent);
    if (first < end) step.observe(Tensor{first}, std::span(g).subspan(first, end - first), args);
    reset_driver_calls();
    step.run(g, args);
    uint64_t launches = driver_calls("cuLaunchKernelEx");
    CHECK(step.stats()->at("total") == expected);
    return launches;
  }
};

}  // namespace

TEST_CASE("what is left of observe() is one launch") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  Sum sum;
  CHECK(sum.run(0, 0, {}, 20) == 1);
  CHECK(sum.run(0, 20, {}, 20) == 2);
  CHECK(sum.run(0, 1, {}, 20) == 2);
  CHECK(sum.run(7, 12, {}, 20) == 2);
  CHECK(sum.run(7, 12, {0, 8, 19}, 17) == 2);
  CHECK(sum.run(7, 12, {0, 8, 19}, 17) == 2);
  CHECK(sum.run(0, 20, {19}, 19) == 2);
  CHECK(sum.run(1, 20, {}, 20) == 2);
  CHECK(sum.run(0, 0, {}, 20) == 1);  // what was observed was for that run
}
