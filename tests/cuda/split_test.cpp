// How many blocks work on a step of few chunks, and on rows and columns. Knows the public API and the fake device.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "compiler/abi.hpp"
#include "runtime/cuda/host_access.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Of a step over one tensor that adds gradients to weights, and with `reduces` also keeps their sum.
uint64_t blocks(size_t size, bool reduces) {
  std::vector<float> weight(size), grad(size, 1);
  auto bytes = [](std::vector<float>& v) {
    return std::span(reinterpret_cast<char*>(v.data()), v.size() * sizeof(float));
  };
  cuda::HostAccess weight_access(0, bytes(weight)), grad_access(0, bytes(grad));
  Layout layout;
  layout.add({.size = size});
  std::string sum = reduces ? "%s = reduce_add %g : f32\n write @sum, %s\n" : "";
  Step step(parse("step @add {\n buffer @grad : f32 in\n buffer @weight : f32 inout\n" +
                  std::string(reduces ? "report @sum : f32\n" : "") +
                  "%g = load @grad : [f32]\n %w = load @weight : [f32]\n %n = add %w, %g : [f32]\n"
                  " store @weight, %n\n" +
                  sum + "}"),
            layout, Device::cuda());
  step.prepare();
  step.bind("weight", {{weight.data()}});
  uint64_t before = launched_blocks();
  step.run({{grad.data()}}, step.make_args());
  step.stats();
  uint64_t launched = launched_blocks() - before;
  CHECK(weight == grad);
  return launched;
}

}  // namespace

TEST_CASE("one chunk is several blocks' work where nothing is reduced") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  constexpr uint64_t kPlaces = 4;  // of the fake device, for blocks
  CHECK(blocks(abi::kPieceElements, false) == kPlaces);
  CHECK(blocks(abi::kPieceElements - 1, false) == kPlaces);
  CHECK(blocks(1000, false) == 1);
  CHECK(blocks(abi::kPieceElements, true) == 1);
}

TEST_CASE("rows and columns are launches of their own where blocks do not wait") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  constexpr uint64_t kRows = 700, kColumns = 300;
  const std::string text = R"(step @lines {
    buffer @grad : f32 in
    buffer @weight : f32 inout
    state @rows : <f32/row>
    state @columns : <f32/column>
    %g = load @grad : [f32]
    %sq = mul %g, %g : [f32]
    %row = reduce_add %sq : <f32/row>
    %column = reduce_max %sq : <f32/column>
    %rows = read @rows : <f32/row>
    %rows1 = add %rows, %row : <f32/row>
    %all = reduce_max %rows1 : f32
    %columns = read @columns : <f32/column>
    %columns1 = max %columns, %column : <f32/column>
    %both = mul %rows1, %columns1 : [f32]
    %part = div %both, %all : [f32]
    %w = load @weight : [f32]
    %n = sub %w, %part : [f32]
    store @weight, %n
    write @rows, %rows1
    write @columns, %columns1
  })";
  auto run = [&](Device device, Form form, bool observes) {
    std::vector<float> weight(kRows * kColumns, 1), grad(kRows * kColumns);
    for (size_t i = 0; i < grad.size(); ++i) grad[i] = static_cast<float>(i % 1009) / 1009;
    auto bytes = [](std::vector<float>& v) {
      return std::span(reinterpret_cast<char*>(v.data()), v.size() * sizeof(float));
    };
    cuda::HostAccess weight_access(0, bytes(weight)), grad_access(0, bytes(grad));
    Layout layout;
    layout.add({.size = kRows * kColumns, .columns = kColumns});
    Step step(parse(text), layout, device, {.form = form, .observe = observes});
    step.prepare();
    step.bind("weight", {{weight.data()}});
    reset_driver_calls();
    for (int i = 0; i < 2; ++i) {
      if (observes) step.observe(0, {{grad.data()}}, step.make_args());
      step.run({{grad.data()}}, step.make_args());
    }
    step.stats();
    return weight;
  };
  const std::vector<float> want = run(Device::cpu(), Form::fused, false);
  auto launches = [&](Form form, bool observes, uint64_t expected) {
    CAPTURE(name(form));
    uint64_t blocks = launched_blocks();
    CHECK(run(Device::cuda(), form, observes) == want);
    CHECK(driver_calls("cuLaunchKernelEx") == 2 * expected);
    CHECK(launched_blocks() - blocks > driver_calls("cuLaunchKernelEx"));
  };
  launches(Form::fused, false, 1);
  // A phase, the fold of rows and columns, the roll-up of rows; a phase, the states.
  launches(Form::split, false, 5);
  launches(Form::split, true, 6);
}
