// Values of rows and columns after a phase, on the PTX machine: all blocks fold, roll up and write
// them, with the interpreter's bits. Also faults planted in the text. Knows all layers.
#include <string>
#include <utility>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>

#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/plan/traffic.hpp"
#include "compiler/variant.hpp"
#include "tests/ptx/edited_kernel.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/random_data.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Rollups to tensors, groups and the step, each from a previous one; writes with and without a
// predicate.
constexpr const char* kTwoPhases = R"(step @two_phases {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  state @rows : <f32/row>
  state @columns : <f32/column>
  report @left : f32
  report @per_group : {f32}
  %g = load @grad : [f32]
  %sq = mul %g, %g : [f32]
  %row = reduce_add %sq : <f32/row>
  %column = reduce_max %sq : <f32/column>
  %rows = read @rows : <f32/row>
  %row1 = add %rows, %row : <f32/row>
  %sum = reduce_add %row1 : <f32>
  %most = reduce_max %row1 : f32
  %share = div %row1, %most : <f32/row>
  %shares = reduce_add %share : <f32>
  %left = reduce_max %shares : f32
  %columns = read @columns : <f32/column>
  %column1 = add %columns, %column : <f32/column>
  %per_group = reduce_add %column1 : {f32}
  %small = lt %share, %left : <bool/row>
  %both = mul %row1, %column1 : [f32]
  %part = div %both, %sum : [f32]
  %d = mul %part, %per_group : [f32]
  %w = load @weight : [f32]
  %w1 = sub %w, %d : [f32]
  store @weight, %w1
  write @rows, %share if %small
  write @columns, %column1
  write @left, %left
  write @per_group, %per_group
}
)";

// The epilogue of a single phase.
constexpr const char* kOnePhase = R"(step @one_phase {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  state @rows : <f32/row>
  state @columns : <f32/column>
  state @count : <i64>
  report @largest : <f32>
  %g = load @grad : [f32]
  %rows = read @rows : <f32/row>
  %columns = read @columns : <f32/column>
  %kept = min %rows, %columns : [f32]
  %second = add %kept, %g : [f32]
  %row = reduce_max %second : <f32/row>
  %column = reduce_add %second : <f32/column>
  %largest = reduce_max %row : <f32>
  %w = load @weight : [f32]
  %w1 = sub %w, %second : [f32]
  %count = read @count : <i64>
  %one = const 1 : i64
  %count1 = add %count, %one : <i64>
  %even = cast %count1 : <f32>
  %row1 = mul %row, %even : <f32/row>
  store @weight, %w1
  write @rows, %row1
  write @columns, %column
  write @largest, %largest
  write @count, %count1
}
)";

// More rows and columns than a block has threads; some tensors have no elements or no gradient.
TestLayout layout_of() {
  TestLayout layout{.signatures = {{DType::f32, DType::f32}}, .group_count = 3};
  for (uint64_t t = 0; t < 26; ++t) {
    uint64_t columns = t * 7 % 5 == 0 ? 300 : 1 + t * 5 % 40;
    uint64_t rows = t % 9 == 4 ? 0 : t == 14 ? 1700 : 1 + t * 11 % 30;
    if (t == 14) columns = 3;
    layout.tensors.push_back({.size = rows * columns,
                              .columns = columns,
                              .group = static_cast<int32_t>(t * t % 3),
                              .present = t % 7 != 3});
  }
  return layout;
}

// Runs the step, or its text with `from` replaced by `to`.
Outcome run(const char* step, Form form, DeviceRun options, const std::string& from = "",
            const std::string& to = "") {
  Program program = parse(step);
  TestLayout layout = layout_of();
  Variant variant = make_variant(optimize(program, layout.signatures), layout.signatures, form);
  TestData input(program, layout, 5, Inputs::normal);
  return run_edited(program, std::move(variant), input, options, from, to);
}

}  // namespace

TEST_CASE("rows and columns are rolled up and written by all blocks, in every form") {
  STEPFUSE_NEEDS_NVRTC();
  for (const char* step : {kTwoPhases, kOnePhase}) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      for (uint32_t blocks : {1U, 2U, 3U, 7U}) {
        CAPTURE(name(form));
        CAPTURE(blocks);
        Outcome o =
            run(step, form, {.blocks = blocks, .seed = blocks, .incoherent = blocks % 2 == 1});
        CHECK(o.fault == "");
        CHECK(o.difference == "");
      }
    }
  }
}

TEST_CASE("as many barriers and launches are counted as stand in the text") {
  for (const char* step : {kTwoPhases, kOnePhase}) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      Variant variant = make_variant(parse(step), layout_of().signatures, form);
      std::string text = emit_cuda(variant.plan);
      int found = 0;
      for (size_t at = text.find("// grid barrier"); at != std::string::npos;
           at = text.find("// grid barrier", at + 1)) {
        ++found;
      }
      CHECK(found == barrier_count(variant.plan));
      int launches = 0;
      for (size_t at = text.find("__global__ void"); at != std::string::npos;
           at = text.find("__global__ void", at + 1)) {
        ++launches;
      }
      CHECK(launches == launch_count(variant.plan));
      CHECK((found > 0) == (form == Form::fused));
    }
  }
}

TEST_CASE("faults where all blocks share rows and columns are caught") {
  STEPFUSE_NEEDS_NVRTC();
  const std::string barrier = "wait_for(ctx.sync->generation, before);";
  auto behind = [&](const std::string& title) {  // the barrier behind that title, without its wait
    Program program = parse(kTwoPhases);
    TestLayout layout = layout_of();
    Variant variant = make_variant(optimize(program, layout.signatures), layout.signatures);
    std::string text = emit_cuda(variant.plan);
    size_t end = text.find(title);
    REQUIRE_MESSAGE(end != std::string::npos, title);
    size_t at = text.rfind("} else {", text.rfind(barrier, end));
    return text.substr(at, end + title.size() - at);
  };
  auto unwaited = [&](std::string part) { return replaced(part, barrier, ""); };
  std::string to_rollup = behind("// roll up row values"),
              to_writes = behind("// states per column");
  struct Fault {
    const char* name;
    std::string from, to;
    const char* says;  // the machine's error; "" if the bits differ
    uint32_t blocks = 3;
    Form form = Form::fused;
  };
  const Fault faults[] = {
      {"rows are rolled up before their results stand", to_rollup, unwaited(to_rollup), "results"},
      {"rows are written while others read them", to_writes, unwaited(to_writes), "state @"},
      {"every block takes all rows", "row = blockIdx.x * kThreads + threadIdx.x",
       "row = threadIdx.x", "slots"},
      {"every block takes all rows of a launch", "row = blockIdx.x * kThreads + threadIdx.x",
       "row = threadIdx.x", "slots", 3, Form::split},
      {"every block takes all columns of a launch", "column = blockIdx.x * kThreads + threadIdx.x",
       "column = threadIdx.x", "slots", 3, Form::unfused},
      {"rows behind the first of each block are left out", "row += gridDim.x * kThreads",
       "row += row_count", "", 1},
      {"a tensor's first row is its neighbour's", "if (begin[middle] <= member) {",
       "if (begin[middle] < member) {", ""},
      {"only the first eight strips of a column count", "first < count; first += kAtOnce",
       "first < 1; first += kAtOnce", ""},
  };
  for (const Fault& f : faults) {
    for (uint64_t seed = 0; seed < 3; ++seed) {
      CAPTURE(f.name);
      Outcome o = run(kTwoPhases, f.form,
                      {.blocks = f.blocks, .seed = seed, .zero_workspace = true}, f.from, f.to);
      INFO("said: ", o.fault);
      if (*f.says == '\0') {
        CHECK(o.difference != "");
      } else {
        CHECK(o.fault.find(f.says) != std::string::npos);
      }
    }
  }
}
