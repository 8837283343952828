// Steps of one and of several kernels on few blocks, which go from tensor to tensor and keep values
// of the previous one. Knows all layers.
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/cuda/command.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/scratch_folder.hpp"

#ifdef STEPFUSE_CLI_BINARY
using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Tensors for a block alternate with tensors for a warp. Neighbours are in different groups, and 60
// tensors exceed the blocks and warps of the fake device's usual grid.
std::string layout() {
  std::string text = R"({"name": "neighbours", "tensors": [)";
  for (int t = 0; t < 60; ++t) {
    text += fmt::format(R"({}{{"name": "t", "shape": [{}], "group": {}}})", t == 0 ? "" : ", ",
                        t % 3 == 0 ? 300 : 7, t / 2 % 3);
  }
  return text + "]}";
}

}  // namespace

TEST_CASE("steps of several kernels on few blocks have the interpreter's bits") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  ScratchFolder folder;
  std::string file = folder.path() / "layout.json";
  std::ofstream(file) << layout();
  // Tensors that sometimes lack a gradient count fewer steps than their neighbours.
  std::string run = fmt::format(
      "{} run adamw --loss-scale --clip --vary --absent=0.3 --layout={} --steps=3 --digest",
      STEPFUSE_CLI_BINARY, file);
  std::string cache = fmt::format("STEPFUSE_CACHE= STEPFUSE_CACHE_DIR={}", folder.path().string());
  std::string expected = output_of(fmt::format("{} {} --backend=interpret", cache, run));
  REQUIRE(expected.size() == 33);
  for (const char* form : {"fused", "split", "unfused"}) {
    for (int blocks : {1, 4}) {
      CAPTURE(form);
      CAPTURE(blocks);
      CHECK(output_of(fmt::format("{} {} STEPFUSE_FAKE_SMS=1 STEPFUSE_FAKE_BLOCKS_PER_SM={} {} "
                                  "--backend=cuda --form={}",
                                  cache, on_fake_driver(), blocks, run, form)) == expected);
    }
  }
}
#endif
