// Lanes that execute at once do what lanes one after the other do: values, counts and faults.
#include <doctest/doctest.h>

#include "tools/ptx_machine/machine.hpp"

using namespace ptx;

namespace {

struct Ran {
  std::vector<u32> values;
  Counters counters;
  std::string fault;
};

// 70 threads, so that the last warp is not full; each has a word of `out`, which holds its number.
Ran run(const std::string& body, Stepping stepping, u64 seed) {
  constexpr u32 kThreads = 70;
  Machine machine;
  auto module = machine.load(R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry test(.param .u64 test_out)
{
.reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;
.shared .align 16 .b8 block[512];
ld.param.u64 %rd1, [test_out];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd2, %r1, 4;
add.s64 %rd3, %rd1, %rd2;
)" + body + "\nret;\n}\n");
  std::vector<u32> numbers(kThreads);
  for (u32 k = 0; k < kThreads; ++k) numbers[k] = k;
  u64 out = machine.memory().allocate(4 * kThreads, "the words");
  machine.memory().write(out, numbers.data(), 4 * kThreads);
  Ran ran{.values = std::vector<u32>(kThreads), .counters = {}, .fault = {}};
  try {
    ran.counters =
        machine.launch(*module->find("test"), {.grid = {1}, .block = {kThreads}},
                       std::as_bytes(std::span(&out, 1)), {.seed = seed, .stepping = stepping});
  } catch (const MachineError& error) {
    ran.fault = error.what();
  }
  machine.memory().read(ran.values.data(), out, 4 * kThreads);
  return ran;
}

// The first line without the thread: another lane may come to the fault first.
std::string what(const std::string& fault) {
  std::string line = fault.substr(0, fault.find('\n'));
  return line.substr(std::min(line.size(), line.find(": ")));
}

// As many rounds as the thread's number modulo 7, some lanes leave the loop halfway, others the
// kernel; every third lane has a branch of its own.
const char* const kParting = R"(
rem.u32 %r2, %r1, 7;
mov.u32 %r3, 0;
loop:
setp.eq.u32 %p1, %r2, 0;
@%p1 bra behind;
sub.u32 %r2, %r2, 1;
rem.u32 %r4, %r1, 3;
setp.eq.u32 %p2, %r4, 0;
@!%p2 bra other;
mad.lo.u32 %r3, %r3, 5, 3;
bra loop;
other:
@%p2 trap;
add.u32 %r3, %r3, %r1;
setp.gt.u32 %p3, %r3, 120;
@%p3 bra behind;
bra loop;
behind:
setp.eq.u32 %p4, %r1, 40;
@%p4 exit;
st.global.u32 [%rd3], %r3;
)";

u32 parted(u32 thread) {
  u32 sum = 0;
  for (u32 left = thread % 7; left > 0; --left) {
    sum = thread % 3 == 0 ? 5 * sum + 3 : sum + thread;
    if (thread % 3 != 0 && sum > 120) break;
  }
  return thread == 40 ? 40 : sum;
}

}  // namespace

TEST_CASE("lanes part and meet again, and execute as many instructions as one after the other") {
  for (u64 seed = 0; seed < 10; ++seed) {
    Ran alone = run(kParting, Stepping::one_by_one, seed);
    for (Stepping stepping : {Stepping::together, Stepping::by_seed}) {
      Ran ran = run(kParting, stepping, seed);
      CHECK(ran.fault == "");
      CHECK(ran.values == alone.values);
      CHECK(ran.counters.instructions == alone.counters.instructions);
      CHECK(ran.counters.global_bytes_written == alone.counters.global_bytes_written);
      for (u32 k = 0; k < ran.values.size(); ++k) CHECK(ran.values[k] == parted(k));
    }
  }
}

TEST_CASE("lanes of a warp exchange values where all of them are there, and where some have left") {
  const char* const exchange = R"(
setp.ge.u32 %p1, %r1, 67;
@%p1 exit;
mov.u32 %r2, %r1;
shfl.sync.bfly.b32 %r3, %r2, 1, 31, -1;
setp.lt.u32 %p2, %r3, 34;
vote.sync.ballot.b32 %r4, %p2, -1;
bar.warp.sync -1;
add.u32 %r3, %r3, %r4;
st.global.u32 [%rd3], %r3;
)";
  // Lane 66 has no partner any more.
  CHECK(what(run(exchange, Stepping::one_by_one, 1).fault) ==
        what(run(exchange, Stepping::together, 1).fault));
  std::string even = exchange;
  even.replace(even.find("67"), 2, "68");
  Ran alone = run(even, Stepping::one_by_one, 1);
  Ran ran = run(even, Stepping::together, 1);
  CHECK(ran.fault == "");
  CHECK(ran.values == alone.values);
  CHECK(ran.counters.instructions == alone.counters.instructions);
  CHECK(ran.values[2] == 3u + 0xFFFFFFFFu);
  CHECK(ran.values[33] == 32u + 3u);
  CHECK(ran.values[69] == 69);
}

TEST_CASE("faults of one lane are named as they are where lanes run one after the other") {
  struct {
    const char *body, *says;
  } faults[] = {
      {"ld.global.u32 %r2, [%rd3+4];", "read of 4 bytes of global memory"},
      {"setp.eq.u32 %p1, %r1, 9; @%p1 add.s64 %rd3, %rd3, 2; st.global.u32 [%rd3], %r1;",
       "an access of 4 bytes at"},
      {"mov.u64 %rd4, block; add.s64 %rd4, %rd4, %rd2; st.shared.u32 [%rd4], %r1; bar.sync 0; "
       "ld.shared.u32 %r2, [%rd4+4];",
       "shared memory that nobody wrote"},
      {"ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd3], %r1;", "which nothing orders after"},
      {"mov.u64 %rd4, block; st.shared.u32 [%rd4], %r1;", "which nothing orders after"},
      {"mov.u64 %rd4, block; mul.wide.u32 %rd5, %r1, 8; add.s64 %rd4, %rd4, %rd5; "
       "st.shared.u32 [%rd4], %r1;",
       "behind the end of shared block"},
      {"ld.global.nc.u32 %r2, [%rd1+16]; st.global.u32 [%rd3], %r2;", "in one launch with"},
  };
  for (const auto& fault : faults) {
    INFO(fault.body);
    for (u64 seed = 0; seed < 5; ++seed) {
      for (Stepping stepping : {Stepping::together, Stepping::one_by_one, Stepping::by_seed}) {
        std::string said = run(fault.body, stepping, seed).fault;
        CHECK_MESSAGE(said.find(fault.says) != std::string::npos, said);
      }
    }
  }
}
