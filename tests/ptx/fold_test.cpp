// The canonical fold, by executed CUDA kernels: what ir/reduction.hpp defines. Knows all layers.
#include <doctest/doctest.h>

#include "compiler/cuda/emit.hpp"
#include "tests/ptx/device_runner.hpp"
#include "tests/support/fold_case.hpp"
#include "tests/support/needs_nvrtc.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("parts of all sizes are folded as defined: CUDA") {
  STEPFUSE_NEEDS_NVRTC();
  for (bool nan : {false, true}) {
    FoldCase c(nan);
    TestData actual(c.data());
    Variant variant = make_variant(c.program(), c.layout().signatures);
    std::string text = emit_cuda(variant.plan);
    DeviceRunner(std::move(variant), text, 90).run(actual.step(), {.blocks = 2, .seed = 1});
    CHECK(c.difference(actual.step()) == "");
  }
}
