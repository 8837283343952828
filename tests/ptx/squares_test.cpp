// Values of squares on the PTX machine: reduced row by row by the threads that have their columns,
// kept, loaded and stored. Knows the compiler, the PTX machine and the interpreter.
#include <algorithm>
#include <string>
#include <utility>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "tests/ptx/edited_kernel.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/random_data.hpp"
#include "tests/support/sides.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr const char* kStep = R"(step @s {
  buffer @w : f32 inout
  buffer @given : <f32/128x128> in
  buffer @sum : <f32/128x128> out
  buffer @code : f8e4m3 out
  state @columns : <f32/column>
  report @norm : f32
  %w = load @w : [f32]
  %given = load @given : <f32/128x128>
  %size = abs %w : [f32]
  %most = reduce_max %size : <f32/128x128>
  %sum = reduce_add %w : <f32/128x128>
  %large = lt 3, %most : <bool/128x128>
  %column = reduce_add %w : <f32/column>
  %scale = div 448, %most : <f32/128x128>
  %scaled = mul %w, %scale : [f32]
  %code = cast %scaled : [f8e4m3]
  %all = add %sum, %given : <f32/128x128>
  %new = sub %w, %all : [f32]
  %norm = reduce_add %new : f32
  store @w, %new
  store @sum, %sum if %large
  store @code, %code
  write @columns, %column
  write @norm, %norm
}
)";

// Squares keep a value for the next phase, whose blocks process some rows each.
constexpr const char* kKept = R"(step @kept {
  buffer @g : f32 in
  buffer @w : f32 inout
  %g = load @g : [f32]
  %w = load @w : [f32]
  %n = sub %w, %g : [f32]
  %size = abs %n : [f32]
  %most = reduce_max %size : <f32/128x128>
  %scale = div 448, %most : <f32/128x128>
  %c = mul %n, %scale : [f32]
  %s = reduce_add %c : <f32>
  stage two
  %d = add %c, %s : [f32]
  %e = mul %d, %scale : [f32]
  store @w, %e
}
)";

// Unfused, the second kernel fetches a value per square with each of its rows and makes another one of the same type.
constexpr const char* kChained = R"(step @chained {
  buffer @w : f32 inout
  %w = load @w : [f32]
  %most = reduce_max %w : <f32/128x128>
  stage one
  %a = add %most, 1 : <f32/128x128>
  stage two
  %b = mul %a, %a : <f32/128x128>
  stage three
  %new = mul %w, %b : [f32]
  store @w, %new
}
)";

// Squares of two sizes in one phase. The smaller ones lie in the larger.
constexpr const char* kSides = R"(step @sides {
  buffer @w : f32 inout
  buffer @given : <f32/16x16> in
  buffer @few : <f32/32x32> out
  buffer @all : <f32/128x128> out
  %w = load @w : [f32]
  %given = load @given : <f32/16x16>
  %size = abs %w : [f32]
  %large = reduce_max %size : <f32/128x128>
  %sum = reduce_add %w : <f32/32x32>
  %least = reduce_min %w : <f32/16x16>
  %few = mul %large, %sum : <f32/32x32>
  %part = add %least, %given : <f32/16x16>
  %fine = add %part, %few : <f32/16x16>
  %new = sub %w, %fine : [f32]
  store @w, %new
  store @few, %few
  store @all, %large
}
)";

// Ragged squares, more rows than a square has, and rows for a warp; some tensors have no elements
// or no gradient.
TestLayout layout_of(const Program& program) {
  TestLayout layout{.signatures = {signature_of(program)}};
  const std::pair<uint64_t, uint64_t> kShapes[] = {{130, 257}, {1, 5},   {128, 128}, {0, 4},
                                                   {127, 1},   {3, 900}, {259, 40},  {2, 17000}};
  for (auto [rows, columns] : kShapes) {
    layout.tensors.push_back(
        {.size = rows * columns, .columns = columns, .present = columns != 900});
  }
  return layout;
}

// The step without its column values, because a phase with them also waits for rows.
std::string without_columns() {
  std::string step = kStep;
  for (const char* line :
       {"  state @columns : <f32/column>\n", "  %column = reduce_add %w : <f32/column>\n",
        "  write @columns, %column\n"}) {
    step = replaced(step, line, "");
  }
  return step;
}

std::string outcome(const std::string& step, Form form, const DeviceRun& options,
                    const std::string& from = "", const std::string& to = "") {
  Program program = parse(step);
  TestLayout layout = layout_of(program);
  Variant variant = make_variant(optimize(program, layout.signatures), layout.signatures, form);
  TestData input(program, layout, 5, Inputs::normal);
  return run_edited(program, std::move(variant), input, options, from, to).any();
}

}  // namespace

// In a phase that combines squares a warp has 256 columns. In other phases a block has some rows.
TEST_CASE("squares are reduced, loaded and stored, in every form") {
  STEPFUSE_NEEDS_NVRTC();
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    for (auto [blocks, split] : {std::pair(1U, 0U), std::pair(3U, 2U), std::pair(5U, 5U)}) {
      CAPTURE(name(form));
      CAPTURE(blocks);
      DeviceRun options{
          .blocks = blocks, .split = split, .seed = blocks, .incoherent = blocks == 3};
      CHECK(outcome(kStep, form, options) == "");
      CHECK(outcome(without_columns(), form, options) == "");
      CHECK(outcome(kKept, form, options) == "");
      CHECK(outcome(kChained, form, options) == "");
      CHECK(outcome(kSides, form, options) == "");
      for (int side : {16, 32}) {
        CAPTURE(side);
        // A part has at least one of the 16 rows that go in order.
        DeviceRun parts = options;
        parts.split = std::min(options.split, 4U);
        CHECK(outcome(with_side(kStep, side), form, parts) == "");
        CHECK(outcome(with_side(kKept, side), form, parts) == "");
      }
    }
  }
  // Observes the phase that combines squares for some tensors, before the step does the rest.
  CHECK(outcome(kStep, Form::split, {.observed = {{.tensor = 2}, {.tensor = 0}}}) == "");
}

TEST_CASE("faults where rows of squares follow each other are caught") {
  STEPFUSE_NEEDS_NVRTC();
  CHECK(outcome(kStep, Form::split, {.blocks = 3}, "last_in_order(tensor, first_line, 128)",
                "last_in_order(tensor, first_line, 64)") != "");
  CHECK(outcome(kStep, Form::split, {.blocks = 3}, "line % 128 == 0 ? Max",
                "line % 64 == 0 ? Max") != "");
  const std::pair<const char*, const char*> faults[] = {
      {"chunk.begin += before * columns;", "chunk.begin += (before + 1) * columns;"},
      {"chunk.slot += u32(before * ", "chunk.slot += u32(0 * "},
      {"const u64 before = rows * part;", "const u64 before = rows * part / 2;"},
      {"turn < units; turn += kWarps * gridDim.x", "turn < units; turn += units"},
      {"warp * gridDim.x + blockIdx.x; turn", "warp; turn"},
  };
  for (auto [from, to] : faults) {
    CAPTURE(from);
    CHECK(outcome(kStep, Form::split, {.blocks = 3, .split = 3}, from, to) != "");
  }
}
