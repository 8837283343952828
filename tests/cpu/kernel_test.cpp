// CPU kernels equal the interpreter bit for bit: whole steps in every form, on every processor
// level of this machine.
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "tests/source_dir.hpp"
#include "tests/support/kernel_runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

Program classic() {
  std::ifstream file(STEPFUSE_SOURCE_DIR "/tests/unit/classic.sf");
  std::stringstream text;
  text << file.rdbuf();
  return parse(text.str(), "classic.sf");
}

}  // namespace

TEST_CASE("the classic pipeline in all forms, mixed storage types, on every level") {
  Program p = classic();
  TestLayout layout{.group_count = 2};
  for (DType grad : {DType::f16, DType::bf16, DType::f32}) {
    Signature types = {grad, DType::bf16, DType::f32};
    layout.add({.size = 40000}, types);
    layout.add({.size = 37, .group = 1, .shift = 3}, types);
    layout.add({.size = 100, .group = 1, .present = false}, types);
    layout.add({.size = 0}, types);
    layout.add({.size = 1, .shift = 1}, types);
  }
  for (const std::string& level : runnable_cpu_levels()) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      for (Inputs inputs : {Inputs::normal, Inputs::special}) {
        TestData input(p, layout, 7, inputs);
        CAPTURE(level);
        CAPTURE(name(form));
        CHECK(compare_with_interpreter(p, input, {.form = form, .level = level}) == "");
        CHECK(compare_with_interpreter(p, input, {form, level, true}, 2) == "");
      }
    }
  }
}

TEST_CASE("more than a thousand chunks: what is only written goes past the caches") {
  Program p = classic();
  TestLayout layout{.group_count = 2};
  for (int i = 0; i < 1100; ++i) {
    layout.add({.size = static_cast<uint64_t>(i % 70),
                .group = i % 2,
                .present = i % 11 != 0,
                .shift = static_cast<size_t>(i % 3)},
               {i % 2 == 0 ? DType::f16 : DType::f32, DType::bf16, DType::f32});
  }
  TestData input(p, layout, 5, Inputs::normal);
  for (const std::string& level : runnable_cpu_levels()) {
    for (Form form : {Form::fused, Form::unfused}) {
      CAPTURE(level);
      CAPTURE(name(form));
      CHECK(compare_with_interpreter(p, input, {.form = form, .level = level}, 2) == "");
    }
  }
}
