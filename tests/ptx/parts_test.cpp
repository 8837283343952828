// Changes that only affect who does the work, on the PTX machine: chunks in parts, flags folded
// sixteen at a time, values of tensors kept for the next one. Knows all layers.
#include <cstring>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "tests/ptx/edited_kernel.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/random_data.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// The error of a run with `from` in the text replaced by `to`, or "".
std::string run(const Program& program, const TestData& input, DeviceRun options,
                const std::string& from = "", const std::string& to = "") {
  Variant variant = make_variant(program, input.layout().signatures);
  options.zero_workspace = !from.empty();
  return run_edited(program, std::move(variant), input, options, from, to).any();
}

// The first phase reduces, so that its chunks stay whole.
constexpr const char* kScaled = R"(step @scaled {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  report @sum : f32
  %g = load @grad : [f32]
  %sum = reduce_add %g : f32
  %d = mul %g, %sum : [f32]
  %w = load @weight : [f32]
  %w1 = sub %w, %d : [f32]
  store @weight, %w1
  write @sum, %sum
}
)";

TestLayout sizes() {
  TestLayout layout{.signatures = {{DType::f32, DType::f32}}, .group_count = 1};
  for (uint64_t size : {0, 5, 248, 249, 2047, 2048, 2049, 8192, 16384, 16385, 40000}) {
    layout.tensors.push_back({.size = size, .present = size != 8192});
  }
  return layout;
}

constexpr const char* kFlags = R"(step @flags {
  buffer @x : f32 in
  report @of_tensors : <bool>
  report @of_all : bool
  %x = load @x : [f32]
  %zero = const 0 : f32
  %set = lt %zero, %x : [bool]
  %rows = reduce_any %set : <bool/row>
  %of_tensors = reduce_any %rows : <bool>
  %of_all = reduce_any %set : bool
  write @of_tensors, %of_tensors
  write @of_all, %of_all
}
)";

// Tensors with rows of one element. If `marked` is the index of a row, that row is set.
TestData flags(uint64_t marked) {
  TestLayout layout{.signatures = {{DType::f32}}, .group_count = 1};
  for (uint64_t rows : {3, 300, 290, 257, 1}) {
    layout.tensors.push_back({.size = rows, .columns = 1});
  }
  TestData data(parse(kFlags), layout, 1, Inputs::normal);
  uint64_t first = 0;
  for (StepTensor& t : data.step().tensors) {
    auto* values = static_cast<float*>(t.data[0]);
    for (uint64_t i = 0; i < t.size; ++i) values[i] = first + i == marked ? 1.0F : 0.0F;
    first += t.size;
  }
  return data;
}

// A per-tensor value, alone and as an operand of per-row values.
constexpr const char* kPowers = R"(step @powers {
  arg %rate : {f64} = 0.5
  buffer @weight : f32 inout
  state @count : <i64>
  %w = load @weight : [f32]
  %sum = reduce_max %w : <f32/row>
  %t = read @count : <i64>
  %power = powi %rate, %t : <f64>
  %share = cast %power : <f32>
  %of_row = mul %sum, %share : <f32/row>
  %scaled = mul %w, %share : [f32]
  %w1 = add %scaled, %of_row : [f32]
  store @weight, %w1
}
)";
constexpr const char* kPowersAlone = R"(step @powers_alone {
  arg %rate : {f64} = 0.5
  buffer @weight : f32 inout
  state @count : <i64>
  %w = load @weight : [f32]
  %t = read @count : <i64>
  %power = powi %rate, %t : <f64>
  %share = cast %power : <f32>
  %w1 = mul %w, %share : [f32]
  store @weight, %w1
}
)";

// Neighbouring tensors of a warp and of a block share the group, the step count, both or neither
// with the previous one.
TestData powers(const Program& program) {
  TestLayout layout{.signatures = {{DType::f32}}, .group_count = 2};
  for (uint64_t t = 0; t < 96; ++t) {
    uint64_t columns = t % 16 == 5 ? 300 : 7;
    layout.tensors.push_back({.size = columns * (1 + t % 3),
                              .columns = columns,
                              .group = static_cast<int32_t>(t / 8 % 2),
                              .present = t % 31 != 30});
  }
  TestData data(program, layout, 1, Inputs::normal);
  for (uint64_t t = 0; t < 96; ++t) {
    data.step().states[0][t] = Bits::of(static_cast<int64_t>(t / 16 % 2 + t / 48));
  }
  return data;
}

}  // namespace

TEST_CASE("values of tensors are kept for those that read the same") {
  STEPFUSE_NEEDS_NVRTC();
  for (const char* text : {kPowers, kPowersAlone}) {
    Program program = parse(text);
    TestData input = powers(program);
    for (uint32_t blocks : {1U, 2U, 5U}) {
      CHECK(run(program, input, {.blocks = blocks, .seed = blocks}) == "");
    }
    const std::pair<std::string, std::string> faults[] = {
        {"own.of_group == group && ", ""},
        {" && raw_of(own.t_t) == raw_of(t_t)", ""},
        {"own.of_tensor != tensor_index", "own.of_tensor == kNone"},
        {"sections[work.section];", "sections[0];"},
    };
    for (const auto& [from, to] : faults) {
      CAPTURE(from);
      CHECK(run(program, input, {.blocks = 1, .seed = 1}, from, to) != "");
    }
  }
}

TEST_CASE("chunks worked on in parts have the bits of whole ones") {
  STEPFUSE_NEEDS_NVRTC();
  Program program = parse(kScaled);
  TestData input(program, sizes(), 3, Inputs::normal);
  for (uint32_t split : {0U, 1U, 2U, 3U}) {
    for (uint32_t blocks : {1U, 5U}) {
      CHECK(run(program, input, {.blocks = blocks, .split = split, .seed = split}) == "");
    }
  }
}

TEST_CASE("faults in the parts of chunks are caught") {
  STEPFUSE_NEEDS_NVRTC();
  Program program = parse(kScaled);
  TestData input(program, sizes(), 3, Inputs::normal);
  const std::pair<std::string, std::string> faults[] = {
      {"  chunk.begin += from;\n", ""},
      {"chunk.length - from < size ? chunk.length - from : size", "size"},
      {"  if (from >= chunk.length) return false;\n", ""},
      {"if (!take_part(chunk, work, unit, ctx.split)) continue;", ""},
      {"(unit & ((1 << split) - 1)) * size", "(unit & ((1 << split) - 1)) * size / 2"},
  };
  for (const auto& [from, to] : faults) {
    CAPTURE(from);
    CHECK(run(program, input, {.blocks = 3, .split = 3, .seed = 1}, from, to) != "");
  }
}

TEST_CASE("a flag is seen wherever it stands among those that are folded at once") {
  STEPFUSE_NEEDS_NVRTC();
  Program program = parse(kFlags);
  for (uint64_t marked : {0, 2, 3, 15, 16, 18, 19, 302, 303, 304, 592, 593, 849, 850, 9999}) {
    CAPTURE(marked);
    CHECK(run(program, flags(marked), {.blocks = 2, .seed = marked}) == "");
  }
}

TEST_CASE("faults in the fold of flags are caught") {
  STEPFUSE_NEEDS_NVRTC();
  Program program = parse(kFlags);
  struct Fault {
    std::string from, to;
    uint64_t marked;
  };
  const Fault faults[] = {
      {"index != nullptr || count < before ? count : before", "0", 9999},
      {"(count - head) / sizeof(Sixteen)", "(count - head) / sizeof(Sixteen) + 1", 303},
      {" | v.words[3]) != 0", ") != 0", 318},
      {"  if (tail < count) any |= values[tail];\n", "", 850},
      {"head + wide * sizeof(Sixteen) + threadIdx.x", "head + wide * sizeof(Sixteen) + 1", 592},
      {"any = __syncthreads_or(any) != 0;\n", "__syncthreads();\n", 400},
  };
  for (const Fault& f : faults) {
    CAPTURE(f.from);
    CAPTURE(f.to);
    CHECK(run(program, flags(f.marked), {.blocks = 2, .seed = 1}, f.from, f.to) != "");
  }
}
