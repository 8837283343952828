// The machine as a whole on small kernels: loads, stores, loops, barriers.
#include "tools/ptx_machine/machine.hpp"

#include <doctest/doctest.h>

using namespace ptx;

TEST_CASE("loads the module of a kernel") {
  Machine machine;
  auto module = machine.load(R"(
.version 9.0
.target sm_90
.address_size 64
.visible .entry twice(.param .u64 twice_param_0)
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [twice_param_0];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd2, %rd2, %rd3;
  ld.global.u32 %r2, [%rd2];
  shl.b32 %r3, %r2, 1;
  st.global.u32 [%rd2], %r3;
  ret;
}
)");
  u64 data = machine.memory().allocate(256);
  std::vector<u32> values(64);
  for (u32 i = 0; i < 64; ++i) values[i] = i;
  machine.memory().write(data, values.data(), 256);
  machine.launch(*module->find("twice"), {.grid = {1}, .block = {64}},
                 std::as_bytes(std::span(&data, 1)));
  machine.memory().read(values.data(), data, 256);
  for (u32 i = 0; i < 64; ++i) CHECK(values[i] == 2 * i);
}
