// Random numbers on both sides of position 2^34, from which on the numbers of blocks have more than 32 bits.
#include <cstdint>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "tests/support/check.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("vectors that cross position 2^34 have the interpreter's random numbers") {
  // The number of a stream stands next to the carry, so one stream is even and one odd.
  Case c(parse(R"(step @draw {
  buffer @even : i32 out
  buffer @odd : i32 out
  arg %seed : i64 = 5
  %six = const 6 : i32
  %seven = const 7 : i32
  %a = random %seed, %seed, %six : [i32]
  store @even, %a
  %b = random %seed, %seed, %seven : [i32]
  store @odd, %b
})"),
         1);
  c.layout.tensors.clear();
  for (uint64_t before : {4, 8, 12, 100}) {
    c.layout.tensors.push_back({.size = 300, .offset = (uint64_t{1} << 34) - before});
  }
  c.layout.fit_sizes(c.program);
  for (const std::string& level : runnable_cpu_levels()) {
    std::string fault = check_cpu(c, {.level = level}).value_or("");
    CHECK_MESSAGE(fault.empty(), level, ": ", fault);
  }
}
