// The race check and the memory model on small kernels: accesses that race and accesses that do
// not, in every interleaving. Also the other errors of an execution.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tools/ptx_machine/machine.hpp"

using namespace ptx;

namespace {

// Thread 0 of block 0 writes, thread 0 of block 1 reads. %data and %flag are words of global memory
// that start at 0; `block` is a shared array.
std::string program(const std::string& writer, const std::string& reader,
                    const std::string& both = "") {
  return R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 flag)
{
.reg .b64 %data, %flag, %y<4>; .reg .b32 %x<8>, %tid, %block; .reg .pred %p<4>; .reg .b16 %h<4>;
.shared .align 16 .b8 block[256];
ld.param.u64 %data, [data]; ld.param.u64 %flag, [flag];
mov.u32 %tid, %tid.x; mov.u32 %block, %ctaid.x;
mov.u32 %x0, 7; mov.b16 %h0, 8; mov.b16 %h1, 9; setp.eq.u32 %p0, %tid, 1000;
)" + both +
         R"(
setp.ne.u32 %p0, %tid, 0; @%p0 bra END;
setp.ne.u32 %p0, %block, 0; @%p0 bra READER;
)" + writer +
         "\nbra END;\nREADER:\n" + reader + "\nEND: ret;\n}\n";
}

struct Outcome {
  bool failed = false;
  ErrorKind kind = ErrorKind::syntax;
  std::string message;
  u32 data = 0;
};

Outcome run(const std::string& text, u64 seed, Dim3 grid = {2}, Dim3 block = {1},
            bool uninitialised = true) {
  Machine machine;
  auto module = machine.load(text);
  u64 params[2] = {machine.memory().allocate(64, "the data"),
                   machine.memory().allocate(64, "the flag")};
  for (u64 p : params) machine.memory().fill(p, 16, 0, 4);
  Outcome outcome;
  try {
    machine.launch(
        *module->find("k"), {.grid = grid, .block = block}, std::as_bytes(std::span(params)),
        {.seed = seed, .step_limit = 1'000'000, .checks = {.uninitialised = uninitialised}});
  } catch (const MachineError& error) {
    outcome = {true, error.kind(), error.what()};
  }
  machine.memory().read(&outcome.data, params[0], 4);
  return outcome;
}

void races(const std::string& text, Dim3 grid = {2}, Dim3 block = {1}) {
  for (u64 seed = 0; seed < 20; ++seed) {
    INFO(text, seed);
    Outcome outcome = run(text, seed, grid, block, false);
    CHECK_MESSAGE(outcome.kind == ErrorKind::race, outcome.message);
  }
}
void orderly(const std::string& text, Dim3 grid = {2}, Dim3 block = {1}) {
  for (u64 seed = 0; seed < 20; ++seed) {
    INFO(text, seed);
    Outcome outcome = run(text, seed, grid, block);
    CHECK_MESSAGE(!outcome.failed, outcome.message);
  }
}

void fails(const std::string& text, ErrorKind kind, const std::string& says, Dim3 grid = {1},
           Dim3 block = {1}) {
  for (u64 seed = 0; seed < 4; ++seed) {
    Outcome outcome = run(text, seed, grid, block);
    INFO(outcome.message);
    CHECK(outcome.kind == kind);
    CHECK(outcome.message.find(says) != std::string::npos);
  }
}

const std::string kWrite = "st.global.u32 [%data], 42; ";
const std::string kRead = "ld.global.u32 %x1, [%data];";
std::string poll(const std::string& load) {
  return "POLL: " + load + " %x0, [%flag]; setp.eq.u32 %p1, %x0, 0; @%p1 bra POLL; ";
}

}  // namespace

TEST_CASE("two threads that nothing orders race on a word, unless both only read") {
  races(program(kWrite, kRead));
  races(program(kWrite, kWrite));
  orderly(program(kRead, kRead));
  races(program(kWrite, "st.relaxed.gpu.global.u32 [%data], 1;"));
  races(program(kWrite, "red.global.add.u32 [%data], 1;"));
  races(program(kRead, "red.global.add.u32 [%data], 1;"));
  orderly(program("red.global.add.u32 [%data], 1;", "red.global.add.u32 [%data], 1;"));
  orderly(
      program("st.relaxed.gpu.global.u32 [%data], 1;", "ld.relaxed.gpu.global.u32 %x1, [%data];"));
  orderly(program("st.volatile.global.u32 [%data], 1;", "ld.volatile.global.u32 %x1, [%data];"));
}

TEST_CASE("bytes of a word are their own") {
  orderly(program("st.global.u16 [%data], %h0;", "st.global.u16 [%data+2], %h1;"));
  orderly(program("st.global.u8 [%data+1], %h0;", "st.global.u8 [%data+2], %h1;"));
  races(program("st.global.u16 [%data], %h0;", "st.global.u8 [%data+1], %h1;"));
  races(program("st.global.u32 [%data], %x0;", "ld.global.u8 %h1, [%data+3];"));
  races(program("st.global.v4.u32 [%data], {1, 2, 3, 4};", "ld.global.u32 %x1, [%data+12];"));
  orderly(program("st.global.v4.u32 [%data], {1, 2, 3, 4};", "ld.global.u32 %x1, [%data+16];"));
}

TEST_CASE("release and acquire order what came before and after") {
  const std::string release = "st.release.gpu.global.u32 [%flag], 1;";
  const std::string acquire = poll("ld.acquire.gpu.global.u32");
  orderly(program(kWrite + release, acquire + kRead));
  orderly(program(kWrite + "red.release.gpu.global.add.u32 [%flag], 1;", acquire + kRead));
  orderly(program(kWrite + release,
                  "POLL: atom.acquire.gpu.global.add.u32 %x0, [%flag], 0; setp.eq.u32 %p1, %x0, 0; "
                  "@%p1 bra POLL; " +
                      kRead));
  races(program(kWrite + "st.relaxed.gpu.global.u32 [%flag], 1;", acquire + kRead));
  races(program(kWrite + release, poll("ld.relaxed.gpu.global.u32") + kRead));
  races(program(kWrite + "st.release.cta.global.u32 [%flag], 1;", acquire + kRead));
  races(program(kWrite + release, poll("ld.acquire.cta.global.u32") + kRead));
  races(program(release + kWrite, acquire + kRead));
  races(program(kWrite + "st.global.u32 [%flag], 1;", acquire + kRead));
}

TEST_CASE("fences make relaxed accesses release and acquire") {
  const std::string set = "st.relaxed.gpu.global.u32 [%flag], 1;";
  const std::string see = poll("ld.relaxed.gpu.global.u32");
  for (const char* fence :
       {"fence.acq_rel.gpu; ", "membar.gl; ", "fence.sc.sys; ", "membar.sys; "}) {
    orderly(program(kWrite + fence + set, see + fence + kRead));
    orderly(program(kWrite + fence + set, poll("ld.acquire.gpu.global.u32") + kRead));
  }
  orderly(program(kWrite + "membar.gl; st.volatile.global.u32 [%flag], 1;",
                  poll("ld.volatile.global.u32") + "membar.gl; " + kRead));
  races(program(kWrite + set, see + "membar.gl; " + kRead));
  races(program(kWrite + "membar.gl; " + set, see + kRead));
  races(program(kWrite + "membar.cta; " + set, see + "membar.gl; " + kRead));
  races(program("membar.gl; " + kWrite + set, see + "membar.gl; " + kRead));
}

TEST_CASE("a thread's own release goes on in what it stores there behind it") {
  const std::string release = "st.release.gpu.global.u32 [%flag], 0; ";
  const std::string set = "st.relaxed.gpu.global.u32 [%flag], 1;";
  const std::string see = poll("ld.acquire.gpu.global.u32") + kRead;
  orderly(program(kWrite + release + set, see));
  orderly(program(kWrite + "red.release.gpu.global.add.u32 [%flag], 0; " + set, see));
  races(program(release + kWrite + set, see));
  races(program(kWrite + "st.release.gpu.global.u32 [%flag+4], 0; " + set, see));
  races(program(kWrite + "st.release.cta.global.u32 [%flag], 0; " + set, see));
}

TEST_CASE("strong accesses that overlap in part race") {
  const std::string read = "ld.relaxed.gpu.global.u32 %x1, [%data+4];";
  races(program("st.relaxed.gpu.global.u64 [%data], 1;", read));
  races(program("st.relaxed.gpu.global.u64 [%data], 1;", "ld.volatile.global.u16 %h2, [%data+2];"));
  races(program("atom.global.add.u64 %y1, [%data], 1;", "atom.global.add.u32 %x1, [%data], 1;"));
  orderly(program("st.relaxed.gpu.global.v2.u32 [%data], {1, 2};", read));
  orderly(program("st.relaxed.gpu.global.u32 [%data], 1;", read));
}

TEST_CASE("a thread that has exited does not order what others do behind a barrier") {
  auto text = [](const std::string& last) {
    return program("", "",
                   "setp.ne.u32 %p1, %tid, 3; @%p1 bra REST; st.global.u32 [%data], 5; " + last +
                       " REST: bar.sync 0; setp.ne.u32 %p1, %tid, 4; @%p1 bra END; "
                       "ld.global.u32 %x1, [%data]; bra END;");
  };
  orderly(text(""), {1}, {64});
  races(text("exit;"), {1}, {64});
}

TEST_CASE("nobody writes in a launch what one of its threads reads non-coherently") {
  const std::string constant = "ld.global.nc.u32 %x1, [%data];";
  races(program(kWrite, constant));
  races(program(kWrite + constant, ""));
  races(program(constant + kWrite, ""));
  races(program("red.global.add.u32 [%data], 1;", constant));
  races(program(kWrite + "membar.gl; st.volatile.global.u32 [%flag], 1;",
                poll("ld.volatile.global.u32") + "membar.gl; " + constant));
  races(program("st.global.u8 [%data+1], %h0;", constant));
  orderly(program("st.global.u8 [%data+1], %h0;", "ld.global.nc.u8 %h2, [%data+2];"));
  orderly(program("st.global.u32 [%data+4], 1;", constant));
  orderly(program(constant, constant));
}

TEST_CASE("registers that nothing wrote are reported, on the way on which it is so") {
  auto text = [](const std::string& body) {
    return program("", "", ".reg .b32 %fresh; .reg .pred %never; " + body + " bra END;");
  };
  const std::string one_way = "setp.eq.u32 %p1, %tid, {}; @%p1 mov.u32 %fresh, 1; ";
  orderly(text(fmt::format(fmt::runtime(one_way), 0) + "add.u32 %x1, %fresh, 1;"), {1}, {1});
  for (const std::string& body :
       {std::string("add.u32 %x1, %fresh, 1;"), std::string("st.global.u32 [%data], %fresh;"),
        fmt::format(fmt::runtime(one_way), 1) + "add.u32 %x1, %fresh, 1;",
        std::string("@%never add.u32 %x1, %x0, 1;"), std::string("@!%never bra END;")}) {
    Outcome outcome = run(text(body), 1, {1}, {1});
    INFO(body, outcome.message);
    CHECK(outcome.kind == ErrorKind::uninitialised);
    CHECK(outcome.message.find("a register that nothing wrote") != std::string::npos);
  }
}

TEST_CASE("a read-modify-write carries on what others released") {
  // Both blocks add to the counter. The second one sees the first one's writes.
  const std::string add =
      "atom.{}.gpu.global.add.u32 %x0, [%flag], 1; setp.eq.u32 %p1, %x0, 0; @%p1 bra END; ";
  auto both = [&](const std::string& order) {
    std::string each = "mad.wide.u32 %y0, %block, 4, %data; st.global.u32 [%y0], 7; " +
                       fmt::format(fmt::runtime(add), order) +
                       "ld.global.u32 %x1, [%data]; ld.global.u32 %x2, [%data+4];";
    return program("", "", "mov.u32 %x3, %block; " + each + " bra END;");
  };
  orderly(both("acq_rel"));
  races(both("relaxed"));
  races(both("release"));
  races(both("acquire"));
}

TEST_CASE("barriers order a block, and only that") {
  // Every thread writes its own word and reads its neighbour's.
  auto exchange = [](const std::string& barrier, const std::string& space) {
    std::string base = space == "shared" ? "mov.u64 %y3, block;" : "mov.u64 %y3, %data;";
    return program("", "",
                   base +
                       " and.b32 %x6, %tid, 15; mad.wide.u32 %y0, %x6, 4, %y3; xor.b32 %x0, %x6, "
                       "1; mad.wide.u32 %y1, %x0, 4, %y3; "
                       "st." +
                       space + ".u32 [%y0], %tid; " + barrier + " ld." + space +
                       ".u32 %x1, [%y1]; bra END;");
  };
  for (const char* space : {"shared", "global"}) {
    orderly(exchange("bar.sync 0;", space), {1}, {16});
    orderly(exchange("barrier.sync 2;", space), {1}, {16});
    orderly(exchange("bar.red.popc.u32 %x5, 0, %p0;", space), {1}, {16});
    orderly(exchange("bar.warp.sync 0xFFFF;", space), {1}, {16});
    races(exchange("vote.sync.any.pred %p1, %p0, 0xFFFF;", space), {1}, {16});
    races(exchange("membar.gl;", space), {1}, {16});
  }
  races(exchange("bar.sync 0;", "global"), {2}, {16});
}

TEST_CASE("reads before a write count") {
  // All threads read, then one writes: a race unless a barrier separates them.
  auto text = [](const std::string& barrier) {
    return program("", "",
                   "ld.global.u32 %x1, [%data]; " + barrier +
                       " setp.eq.u32 %p1, %tid, 3; @%p1 st.global.u32 [%data], 5; bra END;");
  };
  orderly(text("bar.sync 0;"), {1}, {64});
  races(text(""), {1}, {64});
}

TEST_CASE("launches are ordered one behind the other") {
  Machine machine;
  auto module = machine.load(program(kWrite, "", ""));
  u64 params[2] = {machine.memory().allocate(64), machine.memory().allocate(64)};
  for (u32 k = 0; k < 3; ++k) {
    machine.launch(*module->find("k"), {.grid = {1 + k}}, std::as_bytes(std::span(params)),
                   {.seed = k});
  }
  u32 value = 0;
  machine.memory().read(&value, params[0], 4);
  CHECK(value == 42);
}

TEST_CASE("the other errors of an execution") {
  auto one = [](const std::string& body) { return program(body, ""); };
  fails(one("ld.global.u32 %x0, [%data+64];"), ErrorKind::out_of_bounds,
        "0 bytes behind the end of the data");
  fails(one("ld.global.u32 %x0, [%data+-4];"), ErrorKind::out_of_bounds, "4 bytes before the data");
  fails(one("st.global.u32 [%data+0x100000000], 1;"), ErrorKind::out_of_bounds, "in no allocation");
  fails(one("ld.shared.u32 %x0, [block+256];"), ErrorKind::out_of_bounds,
        "behind the end of shared block");
  fails(one("mov.u64 %y0, 0; ld.shared.u32 %x0, [%y0];"), ErrorKind::out_of_bounds, "shared");
  fails(one(".local .b32 own; mov.u64 %y0, own; ld.local.u32 %x0, [%y0+4];"),
        ErrorKind::out_of_bounds, "local");
  fails(one("ld.param.u64 %y0, [flag+8];"), ErrorKind::out_of_bounds, "parameter");
  fails(one("ld.global.u32 %x0, [%data+2];"), ErrorKind::misaligned, "2 bytes off");
  fails(one("ld.global.v2.u32 {%x0, %x1}, [%data+4];"), ErrorKind::misaligned,
        "an access of 8 bytes");
  fails(one("ld.global.v4.u32 {%x0, %x1, %x2, %x3}, [%data+8];"), ErrorKind::misaligned,
        "an access of 16 bytes");
  fails(one("ld.shared.u32 %x0, [block];"), ErrorKind::uninitialised, "byte 0 of shared block");
  fails(one(".local .b32 own; ld.local.u32 %x0, [own];"), ErrorKind::uninitialised, "local");
  fails(one("mov.u64 %y0, flag; cvta.param.u64 %y1, %y0; st.u32 [%y1], 1;"), ErrorKind::read_only,
        "parameters");
  fails(one("trap;"), ErrorKind::trap, "trap;");
  fails(one("LOOP: bra LOOP;"), ErrorKind::hang, "the step limit is reached");
  fails(one(poll("ld.acquire.gpu.global.u32")), ErrorKind::hang,
        "polls a word that nobody will write");
  fails(one("bar.sync 0, 64;"), ErrorKind::hang,
        "waits at barrier 0 (1 of 64 threads have arrived)", {1}, {64});
  fails(program("", "",
                "setp.lt.u32 %p1, %tid, 5; @%p1 bra END; shfl.sync.down.b32 %x0, %tid, 1, 31, "
                "0xFF; bra END;"),
        ErrorKind::bad_warp_operation, "is not in its own member mask", {1}, {32});
  fails(program("", "", "shfl.sync.idx.b32 %x0, %tid, 20, 31, 0xFFFF; bra END;"),
        ErrorKind::bad_warp_operation, "lane 20, which does not take part", {1}, {16});
  fails(
      program("", "",
              "setp.lt.u32 %p1, %tid, 5; @%p1 bra A; bar.sync 0; bra END; A: bar.sync 0; bra END;"),
      ErrorKind::divergent_barrier, "another place", {1}, {32});
}

TEST_CASE("a run of bytes that a whole warp accesses is checked as the lanes' own parts are") {
  // Lane k of each warp accesses part k of the run at %y0 in global or at %y1 in shared memory.
  auto lanes = [](u32 bytes, const std::string& body) {
    return program(
        "", "",
        fmt::format("and.b32 %x6, %tid, 31; mov.u64 %y2, block; "
                    "mad.wide.u32 %y0, %x6, {0}, %data; mad.wide.u32 %y1, %x6, {0}, %y2; "
                    "setp.lt.u32 %p1, %tid, 32; setp.ne.u32 %p2, %tid, 7; {1} bra END;",
                    bytes, body));
  };
  auto in_warp = [&](u32 bytes, const std::string& body, ErrorKind kind, const std::string& says) {
    fails(lanes(bytes, body), kind, says, {1}, {32});
  };
  orderly(lanes(2, "st.global.u16 [%y0], %h0; ld.global.u16 %h2, [%y0];"), {1}, {32});
  in_warp(4, "ld.global.u32 %x1, [%y0];", ErrorKind::out_of_bounds, "behind the end of the data");
  in_warp(2, "st.global.u16 [%y0+2], %h0;", ErrorKind::out_of_bounds,
          "0 bytes behind the end of the data");
  in_warp(2, "ld.global.u16 %h2, [%y0+-2];", ErrorKind::out_of_bounds, "2 bytes before the data");
  in_warp(8, "st.shared.u64 [%y1+8], %y0;", ErrorKind::out_of_bounds,
          "behind the end of shared block");
  in_warp(4, "st.shared.u32 [%y1+2], %tid;", ErrorKind::misaligned, "2 bytes off");
  in_warp(4, "@%p2 st.shared.u32 [%y1], %tid; ld.shared.u32 %x1, [%y1];", ErrorKind::uninitialised,
          "byte 28 of shared block");
  // Two warps access one run.
  const std::string write = "@%p1 st.shared.u32 [%y1], %tid; ";
  const std::string read = "ld.shared.u32 %x1, [%y1]; ";
  races(lanes(4, "st.shared.u32 [%y1], %tid;"), {1}, {64});
  orderly(lanes(4, write + "bar.sync 0; " + read), {1}, {64});
  races(lanes(4, write + "bar.sync 0; " + read + write), {1}, {64});
  orderly(lanes(4, write + "bar.sync 0; " + read + "bar.sync 0; " + write), {1}, {64});
}

TEST_CASE("freed memory is nobody's") {
  Machine machine;
  auto module = machine.load(program(kWrite, ""));
  u64 params[2] = {machine.memory().allocate(64, "short-lived"), machine.memory().allocate(64)};
  CHECK(machine.memory().release(params[0]));
  CHECK_FALSE(machine.memory().release(params[0]));
  CHECK_THROWS_AS(machine.launch(*module->find("k"), {}, std::as_bytes(std::span(params))),
                  MachineError);
  u64 again = machine.memory().allocate(64);
  CHECK(again != params[0]);
  u32 word = 0;
  machine.memory().read(&word, again, 4);
  CHECK(word == 0xA5A5A5A5);
}
