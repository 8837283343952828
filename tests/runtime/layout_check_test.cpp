// Layouts that do not fit a step or any machine are refused by name, by the step and by the
// functions that count its memory beforehand. Tensors may also come one by one. Knows the public
// API.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/ir.hpp>
#include <stepfuse/stepfuse.hpp>

#include "tests/support/messages.hpp"
#include "tests/support/processor_time.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

Program program_of(const std::string& body) {
  return make_recipe(parse_optimizer("optimizer o \"\" {\n" + body + "\n}"));
}

Layout of(const std::vector<TensorSpec>& specs) {
  Layout layout;
  for (const TensorSpec& s : specs) layout.add(s);
  return layout;
}

}  // namespace

TEST_CASE("no number of a tensor is beyond 2^44") {
  constexpr uint64_t kMost = uint64_t{1} << 44;
  for (uint64_t n : {kMost + 16384, uint64_t{1} << 57, uint64_t{1} << 63, ~uint64_t{0}}) {
    CAPTURE(n);
    for (const TensorSpec& spec :
         {TensorSpec{.elements = n}, TensorSpec{.elements = 1, .offset = n / 16384 * 16384},
          TensorSpec{.elements = 1, .full_elements = n},
          TensorSpec{.elements = 0, .full_elements = n}, TensorSpec{.elements = 0, .columns = n},
          TensorSpec{.elements = 1, .full_elements = n, .columns = n}}) {
      Layout layout;
      std::string said = message_of(ErrorKind::bind, [&] { layout.add(spec); });
      CHECK((said.find("2^44") != said.npos || said.find("cut shards there") != said.npos));
      CHECK(layout.size() == 0);
      CHECK(message_of(ErrorKind::bind, [&] { layout.check(spec); }) == said);
    }
  }
  Layout layout;
  CHECK_NOTHROW(layout.add({.elements = 1, .full_elements = kMost, .columns = kMost}));
}

TEST_CASE("workspace_bytes() refuses what a step refuses, in the same words") {
  struct Case {
    Program program;
    Layout layout;
    StepOptions options;
    const char* said;
  };
  Program rows = program_of("state v : row f32\n v = v + norm(g, row)\n w = w - v * g");
  Program columns = program_of("state v : column\n v = v + norm(g, column)\n w = w - v * g");
  Program counts = program_of("w = w - mean(g, tensor) * g / count(tensor)");
  Program positive = program_of("w = w - sum(g > 0, tensor) * g");
  Program broken = rows;
  broken.insts.back().operands[0] = 10000;
  constexpr uint64_t kMany = uint64_t{1} << 33;
  std::vector<Case> cases = {
      {rows, of({{.elements = 10, .full_elements = 20, .columns = 4}}), {}, "ends within a row"},
      {columns,
       of({{.elements = 8, .full_elements = 16, .columns = 4}}),
       {},
       "give it whole tensors"},
      {columns,
       of({{.elements = 4, .full_elements = kMany, .columns = 2}}),
       {},
       "give it whole tensors"},
      {positive, of({{.elements = kMany / 2}}), {}, "it may have 2^32 - 1"},
      {counts, of({{.elements = 8, .offset = 16384}}), {}, "set full_elements"},
      {counts, of({{.elements = 8, .updated = false}}), {}, "no such state"},
      {counts,
       of({{.elements = 8}}),
       {.form = static_cast<Form>(77)},
       "is not fused, split or unfused"},
      {broken, of({{.elements = 8}}), {}, "not defined before its use"},
  };
  for (const Case& c : cases) {
    std::string step =
        message_of([&] { Step(c.program, c.layout, Device::interpreter(), c.options); });
    CHECK(has(step, c.said));
    for (Device::Kind kind : {Device::Kind::cpu, Device::Kind::cuda}) {
      CHECK(message_of([&] { Step::workspace_bytes(c.program, c.layout, c.options, kind); }) ==
            step);
    }
  }
}

TEST_CASE("12,500 tensors that are appended one by one take no longer than one layout of them") {
  Step step(make_recipe("adamw"), of({{.name = "first", .elements = 4}}), Device::interpreter());
  ProcessorTime time;
  for (int i = 0; i < 12500; ++i) step.append({.name = "later", .elements = 4});
  step.prepare();
  MESSAGE(time.sorts() << " sorts");
  CHECK(time.sorts() < 30);  // 600 if each append() rebuilt the step
  CHECK(step.layout().size() == 12501);
  CHECK(step.read_state("step").size() == 12501);
  // A tensor that does not fit is refused at once; earlier ones stay.
  step.append({.elements = 4});
  CHECK(has(message_of([&] { step.append({.elements = 4, .group = -1}); }), "group -1"));
  CHECK(has(message_of([&] { step.append({.elements = 4, .updated = false}); }), "no such state"));
  CHECK(has(message_of([&] { step.append({.elements = 4, .dtypes = {{"no", DType::f16}}}); }),
            "@no"));
  CHECK(step.layout().size() == 12502);
}

TEST_CASE("a shard begins where a block begins") {
  Program blocks = make_recipe("adamw", {.moments = "int8", .moments_below = 1000});
  auto step_of = [&](TensorSpec shard) {
    Layout layout;
    layout.add(std::move(shard));
    return Step(blocks, layout, Device::interpreter());
  };
  step_of({.elements = 64, .offset = 96, .full_elements = 4096});
  step_of({.elements = 64, .offset = 100, .full_elements = 900});  // which keeps f32 moments
  step_of({.elements = 0, .offset = 100, .full_elements = 4096});  // which has no block
  CHECK(has(message_of(ErrorKind::bind,
                       [&] { step_of({.elements = 64, .offset = 100, .full_elements = 4096}); }),
            "begins within a block, and step @adamw has values per 32 elements"));
}
