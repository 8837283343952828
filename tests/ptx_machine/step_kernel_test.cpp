// The step kernel, compiled by NVRTC, equals the host's reference bit for bit in every interleaving.
#include "tests/ptx_machine/kernels/step_kernel.hpp"

#include <ctime>

#include <doctest/doctest.h>

#include "tests/support/needs_nvrtc.hpp"

using namespace ptx;
using namespace ptx::step;

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

// CPU time of this thread, so that other load on the machine does not count.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST_CASE("thread-instructions a second with all checks on: wanted are 10 M") {
  STEPFUSE_NEEDS_NVRTC();
  std::string ptx = step_ptx(90);
  for (u32 blocks : {4u, 132u}) {
    double instructions = 0;
    double seconds = 0;
    for (u64 seed : {0u, 1u, 2u, 3u}) {
      Data data = make_data({{60000, 0}, {40000, 1}}, 1);
      double begin = cpu_seconds();
      instructions +=
          static_cast<double>(run_step(ptx, data, {.blocks = blocks, .seed = seed}).instructions);
      seconds += cpu_seconds() - begin;
    }
    double millions = instructions / seconds / 1e6;
    MESSAGE(blocks << " blocks: " << millions << " M thread-instructions/s with all checks");
    CHECK(instructions > 0);
  }
}
