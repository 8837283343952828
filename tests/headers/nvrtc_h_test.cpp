// Compares our declarations of NVRTC with NVIDIA's nvrtc.h. Knows NVRTC's table.
#include <nvrtc.h>

#include <doctest/doctest.h>

#include "runtime/cuda/nvrtc_library.hpp"
#include "tests/headers/same_abi.hpp"

using namespace stepfuse;
using namespace stepfuse::cuda;

TEST_CASE("every function of NVRTC is declared as in nvrtc.h") {
#define X(name, result, parameters) \
  INFO(#name);                      \
  CHECK(test::called_alike<result parameters, decltype(::name)>);
  {
    STEPFUSE_NVRTC_FUNCTIONS(X)
  }
#undef X
}
