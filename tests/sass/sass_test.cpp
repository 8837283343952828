// The reader of machine code and its judgement, on a loop written by hand in nvdisasm's form and on
// the same loop with one fault each.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "compiler/abi.hpp"
#include "runtime/cuda/split.hpp"
#include "tools/sass/budget.hpp"
#include "tools/sass/model.hpp"

using namespace stepfuse;
using namespace stepfuse::sass;

namespace {

struct Line {
  std::string text;  // an instruction, or a label with its colon
  int stall = 1;
  int sets = 7;  // write barrier
  uint32_t waits = 0;
};

// Two loads of 16 bytes, a root, a store: 8 bytes read and 4 written per element, four elements a turn.
std::vector<Line> sound() {
  return {
      {"MOV R1, c[0x0][0x28]", 1},
      {".L_x_1:"},
      {"LDG.E.128 R4, desc[UR4][R2.64]", 2, 0},
      {"LDG.E.128 R8, desc[UR4][R2.64+0x10]", 2, 1},
      {"FADD R4, R4, R8", 4, 7, 0b11},
      {"MUFU.RSQ R5, R4", 1, 2},
      {"FSETP.GT.AND P0, PT, R4, RZ, PT", 4},
      {"@!P0 BRA `(.L_x_2)", 5},
      {"FMUL R5, R5, R4", 4, 7, 0b100},
      {"BRA `(.L_x_3)", 1},
      {".L_x_2:"},
      {"CALL.REL.NOINC `(slow)", 1},
      {".L_x_3:"},
      {"STG.E.128 desc[UR4][R2.64], R4", 1},
      {"IADD3 R2, R2, 0x10, RZ", 1},
      {"@!P1 CALL.REL.NOINC `(.L_x_4)", 1},
      {"BRA `(.L_x_1)", 5},
      {".L_x_4:"},
      {"EXIT", 5},
  };
}

std::string text_of(const std::vector<Line>& lines) {
  std::string out = "\t.section\t.text.kernel,\"ax\",@progbits\n.text.kernel:\n";
  int address = 0;
  for (const Line& l : lines) {
    if (l.text.ends_with(':')) {
      out += l.text + "\n";
      continue;
    }
    uint64_t high = uint64_t(l.stall) << 41 | uint64_t(l.sets) << 46 | uint64_t{7} << 49 |
                    uint64_t{l.waits} << 52;
    out +=
        fmt::format("        /*{:04x}*/ {} ;  /* 0x{:016x} */\n                 /* 0x{:016x} */\n",
                    address, l.text, 0, high);
    address += 16;
  }
  return out;
}

struct Judged {
  std::vector<Function> functions;
  std::vector<Loop> loops;
  Budget budget;
  std::vector<std::string> findings;
};

Judged judge(const std::vector<Line>& lines) {
  Judged j;
  j.functions = sass::parse(text_of(lines));
  REQUIRE(j.functions.size() == 1);
  j.loops = streaming_loops(j.functions[0]);
  REQUIRE(j.loops.size() == 1);
  j.budget = budget_of(j.loops[0], {.read = 8, .written = 4});
  j.findings = findings(j.loops[0], j.budget);
  return j;
}

// The one finding of the loop in which the line that begins so became others.
std::string finding(std::string_view begins, const std::vector<Line>& others) {
  std::vector<Line> lines;
  for (const Line& l : sound()) {
    if (!l.text.starts_with(begins)) {
      lines.push_back(l);
    } else {
      lines.insert(lines.end(), others.begin(), others.end());
    }
  }
  Judged j = judge(lines);
  CAPTURE(j.findings.size());
  return j.findings.size() == 1 ? j.findings[0] : "";
}

}  // namespace

TEST_CASE("sass: a loop is read, and its fast path counted") {
  Judged j = judge(sound());
  CHECK(j.functions[0].name == "kernel");
  CHECK(j.loops[0].path.size() == 12);
  CHECK(j.findings.empty());
  const Budget& b = j.budget;
  CHECK(b.elements == 4);
  CHECK(b.instructions == 12);
  CHECK(b.memory == 3);
  CHECK(b.special == 1);
  CHECK(b.floats == 3);
  CHECK(b.control == 4);
  CHECK(b.integers == 1);
  CHECK(b.calls == 0);
  CHECK(b.loads_at_once == 2);
  CHECK(b.bytes_at_once == 32);
  CHECK(b.wide_bytes == 48);
  CHECK(b.issue_cycles == 31);
  // The product waits for the root, 23 cycles after it was issued.
  CHECK(b.exposed_cycles == 31 + 23 - 1 - 4 - 5);
}

// The turn is longer where it loads more; behind the loop stands code that goes back into it.
TEST_CASE("sass: the fast path is the cheapest for what it loads") {
  std::vector<Function> functions = sass::parse(text_of({
      {".L_x_1:"},
      {"@P0 BRA `(.L_x_2)"},
      {"LDG.E.128 R4, desc[UR4][R2.64]", 2, 0},
      {"FADD R4, R4, R8", 4, 7, 0b1},
      {"BRA `(.L_x_3)"},
      {".L_x_2:"},
      {"LDG.E.128 R4, desc[UR4][R2.64]", 2, 0},
      {"LDG.E.128 R8, desc[UR4][R2.64+0x10]", 2, 0},
      {"@P3 BRA `(.L_x_5)"},
      {".L_x_4:"},
      {"FADD R4, R4, R8", 4, 7, 0b1},
      {"FADD R4, R4, R9", 4},
      {".L_x_3:"},
      {"@!P1 BRA `(.L_x_1)", 5},
      {"EXIT", 5},
      {".L_x_5:"},
      {"FADD R4, R4, R4", 4},
      {"BRA `(.L_x_4)", 5},
  }));
  std::vector<Loop> loops = streaming_loops(functions[0]);
  REQUIRE(loops.size() == 1);
  Budget b = budget_of(loops[0], {.read = 4});
  CHECK(b.elements == 8);
  CHECK(b.instructions == 7);
  CHECK(b.loads_at_once == 2);
}

// Loads under the predicate of a branch are made on one of its ways only.
TEST_CASE("sass: loads under a branch's predicate count on their way") {
  auto judged = [](const std::string& predicate) {
    std::vector<Function> functions = sass::parse(text_of({
        {".L_x_1:"},
        {predicate + " LDG.E.128 R4, desc[UR4][R2.64]", 2, 0},
        {predicate + " LDG.E.128 R8, desc[UR4][R2.64+0x10]", 2, 0},
        {"ISETP.GE.U32.AND P2, PT, R0, R31, PT"},
        {"@!P0 BRA `(.L_x_2)"},
        {"LDG.E.128 R4, desc[UR4][R2.64]", 2, 0},
        {"FADD R4, R4, R8", 4, 7, 0b1},
        {".L_x_2:"},
        {"FADD R4, R4, R9", 4},
        {"@!P1 BRA `(.L_x_1)", 5},
        {"EXIT", 5},
    }));
    std::vector<Loop> loops = streaming_loops(functions[0]);
    REQUIRE(loops.size() == 1);
    return budget_of(loops[0], {.read = 4});
  };
  Budget jumping = judged("@!P0");
  CHECK(jumping.elements == 8);
  CHECK(jumping.instructions == 6);
  CHECK(jumping.loads_at_once == 2);
  // Both of these and the one behind the branch.
  Budget staying = judged("@P0");
  CHECK(staying.elements == 12);
  CHECK(staying.instructions == 8);
}

// One thread of a block stores what it shares; under a branch's predicate every thread on that way does.
TEST_CASE("sass: stores of a word under a branch's predicate count") {
  auto judged = [](const std::string& predicate) {
    std::vector<Function> functions = sass::parse(text_of({
        {".L_x_1:"},
        {"LDG.E.128 R4, desc[UR4][R2.64]", 2, 0},
        {predicate + " STG.E desc[UR4][R8.64], R4", 2, 7, 0b1},
        {"@P2 BRA `(.L_x_2)"},
        {"FADD R4, R4, R8", 4},
        {"FADD R4, R4, R8", 4},
        {".L_x_2:"},
        {"@!P1 BRA `(.L_x_1)", 5},
        {"EXIT", 5},
    }));
    std::vector<Loop> loops = streaming_loops(functions[0]);
    REQUIRE(loops.size() == 1);
    return budget_of(loops[0], {.read = 4, .written = 1}).stored;
  };
  CHECK(judged("@P2") == 4);
  CHECK(judged("@P3") == 0);
}

TEST_CASE("sass: planted faults are named") {
  CHECK(finding("LDG.E.128 R8",
                {{"MOV R9, R4", 2, 7, 0b1}, {"LDG.E.128 R8, desc[UR4][R2.64+0x10]", 2, 1}}) ==
        "a wait after 1 of 2 loads");
  CHECK(finding("IADD3", {{"STL [R1], R2", 1}}) == "a spill: STL [R1], R2 at 0xb0");
  CHECK(finding("FMUL", {{"CALL.REL.NOINC `(slow)", 1}})
            .starts_with("a call on the fast path: CALL.REL.NOINC"));
  std::vector<Line> halves;
  for (int i = 0; i < 8; ++i)
    halves.push_back({fmt::format("LDG.E.U16 R8, desc[UR4][R2.64+{:#x}]", 2 * i), 2, 1});
  CHECK(finding("LDG.E.128 R8", halves).starts_with("a narrow access: LDG.E.U16"));
  CHECK(finding("STG", {}).starts_with("a turn loads 32 and stores 0 bytes"));
}

TEST_CASE("sass: what is no disassembly is refused") {
  CHECK_THROWS_WITH_AS(sass::parse("hello"), doctest::Contains("nvdisasm -c -hex"), Error);
  CHECK_THROWS_WITH_AS(sass::parse(".text.k:\n  /*00x0*/ EXIT ;"), doctest::Contains("line 2"),
                       Error);
  CHECK_THROWS_WITH_AS(sass::parse(".text.k:\n  /*0000*/ BRA `(.L_9) ; /* 0x0 */\n"),
                       doctest::Contains("goes nowhere"), Error);
}

TEST_CASE("sass: what is slowest limits") {
  Judged j = judge(sound());
  Occupancy three = occupancy(80, 0, 256, 90);
  CHECK(three.blocks == 3);
  CHECK(three.warps == 24);
  CHECK(occupancy(64, 0, 256, 90).blocks == 4);
  CHECK(occupancy(32, 0, 256, 120).blocks == 6);
  CHECK(kib_in_flight(j.budget, three) == 24);

  Gpu gpu{"G", 90, 100, 1.0, 3.0, 500, 64};
  constexpr uint64_t kMany = 1'000'000'000;
  // 24 warps x 128 elements x 12 bytes a round against 30 bytes a clock.
  Prediction p = predict(j.budget, three, gpu, kMany, false);
  CHECK(p.limiter == "memory");
  CHECK(p.ms == doctest::Approx(12e9 / 3e12 * 1e3).epsilon(0.01));
  gpu.copy_tb_s = 300;
  CHECK(predict(j.budget, three, gpu, kMany, false).limiter == "latency");
  gpu.latency_ns = 0;
  j.budget.instructions = 1000;
  CHECK(predict(j.budget, three, gpu, kMany, false).limiter == "issue");
  j.budget.special = 1000;
  CHECK(predict(j.budget, three, gpu, kMany, false).limiter == "special");
  j.budget.doubles = 10'000;
  CHECK(predict(j.budget, three, gpu, kMany, false).limiter == "doubles");
}

TEST_CASE("sass: a few chunks leave multiprocessors without work, but for parts of chunks") {
  Judged j = judge(sound());
  Occupancy three = occupancy(80, 0, 256, 90);
  Gpu gpu{"G", 90, 100, 1.0, 300, 500, 64};
  auto ms = [&](uint64_t elements, bool splits) {
    return predict(j.budget, three, gpu, elements, splits).ms;
  };
  constexpr uint64_t kPiece = abi::kPieceElements;
  CHECK(ms(kPiece, false) == doctest::Approx(ms(300 * kPiece, false)));
  CHECK(ms(301 * kPiece, false) == doctest::Approx(2 * ms(300 * kPiece, false)));
  CHECK(ms(37 * kPiece, true) == doctest::Approx(ms(37 * kPiece, false) / 8));
  CHECK(ms(300 * kPiece, true) == doctest::Approx(ms(300 * kPiece, false)));
}

TEST_CASE("sass: chunks are cut where that is sooner done") {
  auto split = [](uint32_t chunks, uint64_t each) {
    return cuda::best_split(chunks, chunks * each, 528);
  };
  CHECK(split(0, 0) == 0);
  CHECK(split(1, abi::kPieceElements) == 3);   // not finer than two tiles of a thread
  CHECK(split(61, abi::kPieceElements) == 3);  // 488 parts at once
  CHECK(split(200, abi::kPieceElements) == 1);
  CHECK(split(528, abi::kPieceElements) == 0);
  CHECK(split(600, abi::kPieceElements) == 2);
  CHECK(split(100'000, abi::kPieceElements) == 0);
  CHECK(split(61, 300) == 0);                 // nothing is left for the other parts
  CHECK(cuda::rows_split(1, 528, 128) == 5);  // not finer than four rows
  CHECK(cuda::rows_split(1, 528, 64) == 4);
  CHECK(cuda::rows_split(600, 528, 128) == 2);  // four for each block
  CHECK(cuda::rows_split(4 * 528, 528, 128) == 0);
  CHECK(cuda::rows_split(1, 528, 0) == 0);
}
