// The NVRTC front: compiles without a GPU, reports resources, names what went wrong.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>

#include "runtime/cuda/nvrtc.hpp"
#include "runtime/cuda/resources.hpp"
#include "tests/support/needs_nvrtc.hpp"

using namespace stepfuse;
using namespace stepfuse::cuda;

namespace {
constexpr const char* kSquare = R"(
extern "C" __global__ void square(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = x[i] * x[i] + 1.0f;
}
)";
}  // namespace

TEST_CASE("a kernel compiles to PTX and to a cubin with its resources") {
  STEPFUSE_NEEDS_NVRTC();
  CompiledCode ptx = nvrtc_compile({.text = kSquare, .arch = 90, .kind = CodeKind::ptx});
  CHECK(ptx.code.find(".visible .entry square(") != std::string::npos);
  CHECK(ptx.code.find("fma.rn") == std::string::npos);  // never contracted
  CHECK(ptx.kernels.empty());
  CompiledCode cubin = nvrtc_compile({.text = kSquare, .arch = 90});
  CHECK(cubin.code.starts_with("\177ELF"));
  REQUIRE(cubin.kernels.size() == 1);
  CHECK(cubin.kernels[0].kernel == "square");
  CHECK(cubin.kernels[0].registers > 0);
  CHECK_FALSE(cubin.kernels[0].spills());
  CHECK(cubin.log == "");
}

TEST_CASE("text that does not compile is refused with NVRTC's log") {
  STEPFUSE_NEEDS_NVRTC();
  CHECK_THROWS_WITH_AS(nvrtc_compile({.text = "int broken(", .name = "front_test", .arch = 80}),
                       doctest::Contains("error: expected an expression"), Error);
}

TEST_CASE("an arch that NVRTC does not know is named with those that it does") {
  STEPFUSE_NEEDS_NVRTC();
  CHECK_THROWS_WITH_AS(nvrtc_compile({.text = kSquare, .arch = 20}),
                       doctest::Contains("does not compile for sm_20; it knows 75"), Error);
}

TEST_CASE("ptxas's report is read, and what is not part of it is kept") {
  ResourceLog log = parse_resource_log(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90'\n"
      "ptxas info    : Function properties for a\n"
      "    16 bytes stack frame, 4 bytes spill stores, 8 bytes spill loads\n"
      "ptxas info    : Used 78 registers, used 1 barriers, 16 bytes cumulative stack size, 8200 "
      "bytes smem\n"
      "x.cu(3): warning #177-D: variable \"y\" was declared but never referenced\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90'\n"
      "ptxas info    : Function properties for b\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 8 registers, used 0 barriers\n");
  REQUIRE(log.kernels.size() == 2);
  CHECK(log.kernels[0].kernel == "a");
  CHECK(log.kernels[0].registers == 78);
  CHECK(log.kernels[0].stack_bytes == 16);
  CHECK(log.kernels[0].spill_store_bytes == 4);
  CHECK(log.kernels[0].spill_load_bytes == 8);
  CHECK(log.kernels[0].shared_bytes == 8200);
  CHECK(log.kernels[0].spills());
  CHECK(log.kernels[0].uses_local_memory());
  CHECK(log.kernels[1].registers == 8);
  CHECK_FALSE(log.kernels[1].spills());
  CHECK_FALSE(log.kernels[1].uses_local_memory());
  CHECK(log.rest == "x.cu(3): warning #177-D: variable \"y\" was declared but never referenced\n");
}

TEST_CASE("each of stack, spilled stores and spilled loads is local memory") {
  for (const char* line : {"16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads",
                           "0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads",
                           "0 bytes stack frame, 0 bytes spill stores, 8 bytes spill loads"}) {
    ResourceLog log = parse_resource_log(
        std::string("ptxas info    : Compiling entry function 'a' for 'sm_90'\n    ") + line +
        "\n");
    REQUIRE(log.kernels.size() == 1);
    CHECK(log.kernels[0].uses_local_memory());
  }
}
