// ir/README.md is true: its programs parse, and its tables have every op, rule, dtype and granularity.
// Knows ir.
#include <algorithm>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/reduction.hpp"
#include "tests/source_dir.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {
std::string reference() {
  std::ifstream file(STEPFUSE_SOURCE_DIR "/ir/README.md");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}
}  // namespace

TEST_CASE("reference: its programs are fixed points of parse and print") {
  std::string text = reference();
  int programs = 0;
  for (size_t at = text.find("```step\n"); at != std::string::npos;
       at = text.find("```step\n", at)) {
    at += 8;
    std::string program = text.substr(at, text.find("```", at) - at);
    CHECK(print(parse(program, "ir/README.md")) == program);
    ++programs;
  }
  CHECK(programs >= 1);
}

TEST_CASE("reference: every op, dtype, granularity and rule is there") {
  std::string text = reference();
  for (const OpInfo& o : all_ops()) {
    CAPTURE(o.name);
    CHECK(std::regex_search(text, std::regex("`" + std::string(o.name) + "[` ]")));
  }
  for (int t = 0; t < kDTypeCount; ++t)
    CHECK(has(text, "\"" + std::string(name(static_cast<DType>(t))) + "\""));
  for (const NamedGranularity& d : kGranularities) {
    CHECK(has(text, "| " + std::string(d.name) + " | "));
    CHECK(has(text, "`" + std::string(d.open) + "f32" + std::string(d.close) + "`"));
  }
  for (int rule = 1; rule <= 20; ++rule) CHECK(has(text, "| V" + std::to_string(rule) + " | "));
  CHECK_FALSE(has(text, "| V21 | "));
  CHECK(kPieceElements == 16384);
  CHECK(kLanes == 2048);
}

TEST_CASE("reference: an absent tensor contributes no elements, but its tensor values count") {
  Program p = parse(R"(step @s {
    buffer @w : f32 inout
    state @mine : <f32>
    state @all : f32
    report @elements : f32
    report @tensors : i32
    report @present : i32
    report @count : <i64>
    report @counts : i64
    report @columns : i64
    %w = load @w : [f32]
    %sum = reduce_add %w : f32
    %one = const 1 : i32
    %zero = const 0 : i32
    %index = tensor_index : <i32>
    %each = mul %index, %zero : <i32>
    %counted = add %each, %one : <i32>
    %tensors = reduce_add %counted : i32
    %count = element_count : <i64>
    %counts = reduce_add %count : i64
    %row = column_count : <i64>
    %columns = reduce_add %row : i64
    %here = present : <bool>
    %bit = select %here, %one, %zero : <i32>
    %present = reduce_add %bit : i32
    %two = const 2 : f32
    %twice = mul %w, %two : [f32]
    store @w, %twice
    write @mine, %sum
    write @all, %sum
    write @elements, %sum
    write @tensors, %tensors
    write @present, %present
    write @count, %count
    write @counts, %counts
    write @columns, %columns
  })");
  float a[] = {1, 2};
  float b[] = {100};
  StepData data;
  data.tensors = {
      {.size = 2, .offset = 5, .full_size = 10, .columns = 5, .data = {a}, .dtypes = {DType::f32}},
      {.size = 1, .present = false, .data = {b}, .dtypes = {DType::f32}},
      {.size = 0, .data = {nullptr}, .dtypes = {DType::f32}}};
  data.states = {{Bits{}, Bits{}, Bits{}}, {Bits{}}, {Bits{}}, {Bits{}}, {Bits{}},
                 {Bits{}, Bits{}, Bits{}}, {Bits{}}, {Bits{}}};
  interpret(p, data);
  CHECK(a[1] == 4);
  CHECK(b[0] == 100);
  CHECK(data.states[0][0].f32() == 3);
  CHECK(data.states[0][1].f32() == 0);  // not written
  CHECK(data.states[0][2].f32() == 3);  // empty is not absent
  CHECK(data.states[1][0].f32() == 3);
  CHECK(data.states[2][0].f32() == 3);
  CHECK(data.states[3][0].i32() == 3);
  CHECK(data.states[4][0].i32() == 2);
  CHECK(data.states[5][0].i64() == 10);  // of the full tensor
  CHECK(data.states[5][1].i64() == 0);   // not written
  CHECK(data.states[6][0].i64() == 11);
  CHECK(data.states[7][0].i64() == 6);  // one of 5, one of all there is
}
