// Code tables on the PTX machine: the interpreter's codes and values, read from shared memory. Knows
// all layers.
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include "compiler/cuda/emit.hpp"
#include "tests/ptx/edited_kernel.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/signatures.hpp"
#include "tests/support/table_program.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

TestLayout layout_of(const Program& program) {
  TestLayout layout;
  layout.add({.size = 700}, signature_of(program));
  layout.add({.size = 77, .shift = 3}, signature_of(program));
  return layout;
}

// Empty, or what went wrong with `from` in the text replaced by `to`.
std::string run(const Program& program, Inputs inputs, const std::string& from = "",
                const std::string& to = "") {
  TestData input(program, layout_of(program), 1, inputs);
  Variant variant = make_variant(program, input.layout().signatures);
  DeviceRun options{.blocks = 2, .zero_workspace = !from.empty()};
  return run_edited(program, std::move(variant), input, options, from, to).any();
}

}  // namespace

TEST_CASE("code tables of many sizes, on their bounds and beside them: CUDA") {
  STEPFUSE_NEEDS_NVRTC();
  Rng rng(5);
  for (size_t count : {2, 3, 16, 40, 256}) {
    CAPTURE(count);
    CHECK(run(table_program(rising_values(count, rng)),
              count == 40 ? Inputs::special : Inputs::normal) == "");
  }
}

TEST_CASE("a block reads each code table once from global memory") {
  STEPFUSE_NEEDS_NVRTC();
  Rng rng(5);
  Program program = table_program(rising_values(16, rng));
  TestLayout layout;
  layout.add({.size = 8 * 16384}, signature_of(program));
  TestData input(program, layout, 1, Inputs::normal);
  Variant variant = make_variant(program, input.layout().signatures);
  std::string text = emit_cuda(variant.plan);
  auto counters = DeviceRunner(std::move(variant), text, 90).run(input.step(), {.blocks = 1});
  // The one array that is loaded, and what each thread reads of its chunks.
  CHECK(counters.global_bytes_read < 2 * 8 * 16384 * 4);
}

TEST_CASE("faults in the shared code tables are caught") {
  STEPFUSE_NEEDS_NVRTC();
  Rng rng(5);
  Program program = table_program(rising_values(16, rng));
  const std::pair<std::string, std::string> faults[] = {
      {"share(t_map, stepfuse::t_map);", ""},
      {"share(t_map, stepfuse::t_map);\n  __syncthreads();", "share(t_map, stepfuse::t_map);"},
      {"i < kValues; i += kThreads) to[i]", "i + 1 < kValues; i += kThreads) to[i]"},
      {"(k == 3 ? high : low)", "(k == 3 ? low : high)"},
      {"root <= x ? 3 : 2", "root < x ? 3 : 2"},
  };
  for (const auto& [from, to] : faults) {
    CAPTURE(from);
    CHECK(run(program, Inputs::normal, from, to) != "");
  }
}
