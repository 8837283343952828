// How many blocks work on a step of few chunks. Knows the public API and the fake device.
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
