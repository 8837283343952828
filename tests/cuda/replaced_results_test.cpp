// Results that ranks replace after reduce() are used by the rest of a step: per-row and per-tensor
// values, and rollups of them. Knows the public API and the fake device.
#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/host_access.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"
#include "tests/cuda/fake_device.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr const char* kStep = R"(step @rolled {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  state @rows : <f32/row>
  %g = load @grad : [f32]
  %sq = mul %g, %g : [f32]
  %norm = reduce_add %sq : f32
  %tensor = reduce_add %sq : <f32>
  %row = reduce_add %sq : <f32/row>
  %row1 = mul %row, %norm : <f32/row>
  %most = reduce_max %row1 : <f32>
  %tensor1 = mul %tensor, %norm : <f32>
  %all = reduce_max %tensor1 : f32
  %w = load @weight : [f32]
  %x = mul %row1, %most : <f32/row>
  %y = div %x, %all : <f32/row>
  %new = add %w, %y : [f32]
  store @weight, %new
  write @rows, %row
})";

struct Matrix {
  uint64_t rows, columns;
};
constexpr Matrix kTensors[] = {{70, 300}, {1, 5}, {300, 70}, {2, 20'000}};

// Weights after a step whose norm was multiplied by `factor` between its phases.
std::vector<float> weights(const Device& device, Form form, float factor) {
  Layout layout;
  uint64_t total = 0;
  for (const Matrix& t : kTensors) {
    layout.add({.elements = t.rows * t.columns, .columns = t.columns});
    total += t.rows * t.columns;
  }
  std::vector<float> weight(total, 1), grad(total);
  for (uint64_t i = 0; i < total; ++i) grad[i] = std::sin(static_cast<float>(i));
  std::vector<cuda::HostAccess> access;
  if (fake_device()) {
    for (std::vector<float>* v : {&weight, &grad}) {
      access.emplace_back(0, std::span(reinterpret_cast<char*>(v->data()), total * sizeof(float)));
    }
  }
  std::vector<void*> bound, grads;
  uint64_t at = 0;
  for (const Matrix& t : kTensors) {
    bound.push_back(weight.data() + at);
    grads.push_back(grad.data() + at);
    at += t.rows * t.columns;
  }
  Step step(parse(kStep), layout, device, {.form = form, .observe = true});
  step.prepare();
  step.bind_raw("weight", bound);
  step.init_state();
  Args args = step.make_args();
  step.reduce(grads, args);
  Partials partials = step.partials();
  char* norm = static_cast<char*>(partials.block) + partials.at("norm").offset;
  DeviceMemory& memory = *Internals::of(step).backend->memory();
  float value = 0;
  memory.copy_to_host(&value, norm, sizeof value, {});
  value *= factor;
  memory.copy_to_device(norm, &value, sizeof value, {});
  step.run(grads, args);
  step.stats();
  return weight;
}

}  // namespace

TEST_CASE("a replaced result stands in what is rolled up of rows and tensors") {
  const std::vector<float> replaced = weights(Device::interpreter(), Form::fused, 3);
  CHECK(replaced != weights(Device::interpreter(), Form::fused, 1));
  std::vector<Device> devices;
  if (llvm_status().available) devices.push_back(Device::cpu());
  if (fake_device()) devices.push_back(Device::cuda());
  for (const Device& device : devices) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      CAPTURE(name(form));
      CHECK(weights(device, form, 3) == replaced);
    }
  }
}
