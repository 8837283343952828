// A step of thousands of buffers compiles in time in proportion to them, with the definition's bits. Knows the
// builder and the CPU backend.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "ir/program/builder.hpp"
#include "tests/support/processor_time.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Each buffer becomes a sum of itself and the one before it.
Program make_chain(int buffers) {
  Builder b("chain");
  BufferRef grad = b.buffer("grad", DType::f32, Access::in);
  Value before = b.load(grad).named("g");
  for (int i = 0; i < buffers; ++i) {
    BufferRef buffer = b.buffer("b" + std::to_string(i), DType::f32, Access::inout);
    Value here = b.load(buffer).named("v" + std::to_string(i));
    Value sum = (here + before).named("s" + std::to_string(i));
    b.store(buffer, sum);
    before = here;
  }
  return b.finish();
}

std::vector<std::vector<float>> run(const Program& program, const Device& device) {
  constexpr size_t kElements = 77;
  std::vector<std::vector<float>> arrays;
  for (size_t b = 0; b < program.buffers.size(); ++b) {
    std::vector<float>& array = arrays.emplace_back(kElements);
    for (size_t i = 0; i < kElements; ++i) {
      array[i] = 1.0F / static_cast<float>(1 + b * kElements + i);
    }
  }
  Layout layout;
  layout.add({.name = "t", .elements = kElements});
  Step step(program, layout, device);
  step.prepare();
  for (size_t b = 1; b < arrays.size(); ++b) {
    step.bind_raw(program.buffers[b].name, std::vector<void*>{arrays[b].data()});
  }
  step.adopt_state();
  step.run(std::vector<void*>{arrays[0].data()}, step.make_args());
  return arrays;
}

}  // namespace

TEST_CASE("2,500 buffers compile in seconds") {
  Program program = make_chain(2500);
  ProcessorTime time;
  auto found = run(program, Device::cpu(1));
  MESSAGE(time.sorts() << " sorts");
  CHECK(time.sorts() < 300);  // 900 if LLVM schedules it
  CHECK(found == run(program, Device::interpreter()));
}
