// Several devices, and arrays that stand on the wrong one.
#include <cstdlib>
#include <vector>

#include <doctest/doctest.h>

#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/trainer.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr uint64_t kElements = 100;

// Memory of one device.
class DeviceArray {
 public:
  explicit DeviceArray(int ordinal) {
    make_context_current(ordinal);
    REQUIRE(call_driver("cuMemAlloc_v2", &address_, size_t{kElements * 4}) == 0);
    unsigned char zero = 0;
    REQUIRE(call_driver("cuMemsetD8_v2", address_, zero, size_t{kElements * 4}) == 0);
  }
  ~DeviceArray() { call_driver("cuMemFree_v2", address_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  void* pointer() const { return reinterpret_cast<void*>(address_); }

 private:
  uint64_t address_ = 0;
};

}  // namespace

TEST_CASE("an array of another device, or of the host, is refused by name") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Layout layout;
  layout.add({.name = "bias", .elements = kElements});
  DeviceArray near(0), near2(0), near3(0), near4(0), far(1);
  std::vector<float> host(kElements);
  Step step(make_recipe("adamw"), layout, Device::cuda(0));
  auto bind = [&](const char* buffer, void* p) { step.bind_raw(buffer, std::vector<void*>{p}); };
  CHECK_THROWS_WITH_AS(bind("weight", far.pointer()),
                       doctest::Contains("@weight of tensor 0 'bias' at "), Error);
  CHECK_THROWS_WITH_AS(bind("weight", far.pointer()),
                       doctest::Contains("is memory of cuda:1; this step runs on cuda:0"), Error);
  CHECK_THROWS_WITH_AS(bind("exp_avg", host.data()), doctest::Contains("is host memory"), Error);
  bind("weight", near.pointer());
  bind("exp_avg", near2.pointer());
  bind("exp_avg_sq", near3.pointer());
  step.prepare();
  step.init_state();
  auto run = [&](void* p) { step.run(std::vector<void*>{p}, step.make_args()); };
  CHECK_THROWS_WITH_AS(run(far.pointer()), doctest::Contains("@grad of tensor 0 'bias'"), Error);
  CHECK_THROWS_WITH_AS(run(host.data()), doctest::Contains("host memory"), Error);
  run(near4.pointer());
  // The caller's argument block and the caller's allocator as well.
  std::vector<void*> g = {near4.pointer()};
  CHECK_THROWS_WITH_AS(step.run(g, DeviceArgs{far.pointer()}), doctest::Contains("cuda:1"), Error);
  StepOptions options;
  options.allocator.allocate = [&](size_t bytes, Stream) {
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  };
  options.allocator.release = [](void* p, size_t, Stream) { std::free(p); };
  CHECK_THROWS_WITH_AS(Step(make_recipe("adamw"), layout, Device::cuda(0), options),
                       doctest::Contains("allocator"), Error);
}

TEST_CASE("an array that is shorter than its tensor is refused by its last byte") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Layout layout;
  constexpr uint64_t kFar = uint64_t{1} << 30;  // its end is no memory of the device
  layout.add({.name = "bias", .elements = kFar});
  DeviceArray small(0);
  Step step(make_recipe("sgd"), layout, Device::cuda(0));
  std::vector<void*> pointers = {small.pointer()};
  CHECK_THROWS_WITH_AS(step.bind_raw("weight", pointers),
                       doctest::Contains("has 4294967296 bytes, and its last one is host memory"),
                       Error);
}

TEST_CASE("steps on two devices in turns, whatever context is current") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  const Trainer::Sizes sizes = {300, 1, 17};
  Trainer want(Device::interpreter(), Form::fused, sizes);
  make_context_current(0);
  Trainer a(Device::cuda(0), Form::fused, sizes), b(Device::cuda(1), Form::fused, sizes);
  for (int i = 0; i < 6; ++i) {
    want.run(i, 0);
    make_context_current(i % 2);
    a.run(i, i % 2);
    b.run(i, i % 2);
  }
  CHECK(a.weights() == want.weights());
  CHECK(b.weights() == want.weights());
}

TEST_CASE("one scaler serves one device") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Layout layout;
  layout.add({.elements = 4});
  Program program = make_recipe("adamw", {.loss_scale = LossScale::dynamic});
  LossScaler scaler;
  Step first(program, layout, Device::cuda(0), {.scaler = &scaler});
  CHECK_THROWS_WITH_AS(Step(program, layout, Device::cuda(1), {.scaler = &scaler}),
                       doctest::Contains("one device"), Error);
}
