// The canonical fold, by executed CUDA kernels: what ir/reduction.hpp defines. Knows all layers.
#include <doctest/doctest.h>

#include "compiler/emit.hpp"
#include "tests/differential/fold_case.hpp"
#include "tests/nvrtc/skip.hpp"
#include "tests/ptx/device_runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("parts of all sizes are folded as defined: CUDA") {
  STEPFUSE_NEEDS_NVRTC();
  for (bool nan : {false, true}) {
    FoldCase c(nan);
    TestData actual(c.data());
    Schedule schedule =
        make_schedule(c.program(), {.form = Form::fused, .signatures = c.layout().signatures});
    std::string text = emit_cuda(schedule);
    DeviceRunner(std::move(schedule), text, 90).run(actual.step(), {.blocks = 2, .seed = 1});
    CHECK(c.difference(actual.step()) == "");
  }
}
