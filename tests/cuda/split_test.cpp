// The number of blocks that work on a step of few chunks, and on rows and columns. Knows the public
// API and the fake device.
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

// Counts the blocks of a step over one tensor. It adds %g, or `added`, which is also 1, to weights
// of 0, and its text contains `declared` and `code`.
uint64_t blocks(size_t size, const std::string& declared = "", const std::string& code = "",
                uint64_t columns = 0, const std::string& added = "%g") {
  std::vector<float> weight(size), grad(size, 1);
  auto bytes = [](std::vector<float>& v) {
    return std::span(reinterpret_cast<char*>(v.data()), v.size() * sizeof(float));
  };
  cuda::HostAccess weight_access(0, bytes(weight)), grad_access(0, bytes(grad));
  Layout layout;
  layout.add({.elements = size, .columns = columns});
  Step step(parse("step @add {\n buffer @grad : f32 in\n buffer @weight : f32 inout\n" + declared +
                  "%g = load @grad : [f32]\n %w = load @weight : [f32]\n" + code + "%n = add %w, " +
                  added + " : [f32]\n store @weight, %n\n}"),
            layout, Device::cuda());
  step.prepare();
  step.bind_raw("weight", {weight.data()});
  uint64_t before = launched_blocks();
  step.run({grad.data()}, step.make_args());
  step.stats();
  uint64_t launched = launched_blocks() - before;
  CHECK(weight == grad);
  return launched;
}

}  // namespace

TEST_CASE("one chunk is several blocks' work where nothing is reduced") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  constexpr uint64_t kPlaces = 4;  // blocks that fit the fake device
  CHECK(blocks(abi::kPieceElements) == kPlaces);
  CHECK(blocks(abi::kPieceElements - 1) == kPlaces);
  CHECK(blocks(1000) == 1);
  const std::string sum = "%s = reduce_add %g : f32\n write @sum, %s\n";
  CHECK(blocks(abi::kPieceElements, "report @sum : f32\n", sum) == 1);
  // A strip of rows: cut by columns if columns are combined and no row is folded, otherwise by
  // rows.
  const std::string columns = "state @most : <f32/column>\n";
  const std::string combined = "%c = reduce_max %g : <f32/column>\n write @most, %c\n";
  const std::string read = "%m = read @most : <f32/column>\n %a = add %g, %m : [f32]\n";
  constexpr uint64_t kColumns = 512, kStrip = abi::kStripRows * kColumns;
  CHECK(blocks(kStrip, columns, combined, kColumns) == kColumns / abi::kPartColumns);
  CHECK(blocks(kStrip, columns + "report @sum : f32\n", combined + sum, kColumns) == 1);
  CHECK(blocks(kStrip, columns, read, kColumns, "%a") >= kPlaces);
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
    layout.add({.elements = kRows * kColumns, .columns = kColumns});
    Step step(parse(text), layout, device, {.form = form, .observe = observes});
    step.prepare();
    step.bind_raw("weight", {weight.data()});
    reset_driver_calls();
    for (int i = 0; i < 2; ++i) {
      if (observes) step.observe(Tensor{0}, {grad.data()}, step.make_args());
      step.run({grad.data()}, step.make_args());
    }
    step.stats();
    return weight;
  };
  const std::vector<float> want = run(Device::cpu(), Form::fused, false);
  auto launches = [&](Form form, bool observes, uint64_t expected, uint64_t blocks) {
    CAPTURE(name(form));
    uint64_t before = launched_blocks();
    CHECK(run(Device::cuda(), form, observes) == want);
    CHECK(driver_calls("cuLaunchKernelEx") == 2 * expected);
    CHECK(launched_blocks() - before == 2 * blocks);
  };
  launches(Form::fused, false, 1, 6);
  // The first phase, the fold of rows and columns, the rollup of rows; the second phase, the
  // states.
  launches(Form::split, false, 5, 21);
  launches(Form::split, true, 6, 22);
}
