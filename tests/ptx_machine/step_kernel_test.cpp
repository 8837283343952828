// The step kernel, compiled by NVRTC, equals the host's reference bit for bit in every interleaving.
#include <chrono>

#include <doctest/doctest.h>

#include "tests/nvrtc/skip.hpp"
#include "tests/ptx_machine/step_kernel.hpp"

using namespace stepfuse::ptx;
using namespace stepfuse::ptx::step;

namespace {

const std::vector<TensorShape> kShapes = {{5000, 0}, {1, 1}, {4096, 2}, {777, 1}, {63, 0, false}};

void check_equal(const Data& got, const Data& want) {
  REQUIRE(got.tensors.size() == want.tensors.size());
  for (std::size_t k = 0; k < got.tensors.size(); ++k) {
    INFO("tensor ", k);
    CHECK(got.tensors[k] == want.tensors[k]);
  }
  CHECK(got.steps == want.steps);
}

}  // namespace

TEST_CASE("every architecture, grid and seed gives the reference's bits") {
  STEPFUSE_NEEDS_NVRTC();
  Data start = make_data(kShapes, 1);
  Data want = start;
  reference_step(want);
  for (int arch : {75, 80, 90, 100, 120}) {
    for (u32 blocks : {1u, 2u, 7u}) {
      for (u64 seed : {0u, 1u, 2u, 3u}) {
        INFO("sm_", arch, ", ", blocks, " blocks, seed ", seed);
        Data got = start;
        run_step(step_ptx(arch), got, {.blocks = blocks, .seed = seed});
        check_equal(got, want);
      }
    }
  }
}

TEST_CASE("speed") {
  STEPFUSE_NEEDS_NVRTC();
  for (u64 seed : {0u, 1u, 2u, 3u}) for (u32 blocks : {4u, 132u}) for (bool checks : {true, false}) {
  Data data = make_data({{200000, 0}, {100000, 1}}, 1);
  auto begin = std::chrono::steady_clock::now();
  Counters counters = run_step(step_ptx(90), data, {.blocks = blocks, .seed = seed, .checks = {checks, checks}});
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  MESSAGE("seed " << seed << " blocks " << blocks << " checks " << checks << ": " << counters.instructions / seconds.count() / 1e6 << " M thread-instructions/s, " << counters.instructions << " turns " << counters.turns);
  }
}
