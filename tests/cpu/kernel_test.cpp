// CPU kernels against the interpreter, to the bit: whole steps in every form, on every processor
// level that this machine runs.
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "tests/source_dir.hpp"
#include "tests/support/kernel_runner.hpp"

using namespace stepfuse;

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
  OwnedData input(p, 2);
  for (DType grad : {DType::f16, DType::bf16, DType::f32}) {
    std::vector<DType> dtypes = {grad, DType::bf16, DType::f32};
    input.add_tensor(p, 40000, 0, true, dtypes);
    input.add_tensor(p, 37, 1, true, dtypes, 3);
    input.add_tensor(p, 100, 1, false, dtypes);
    input.add_tensor(p, 0, 0, true, dtypes);
    input.add_tensor(p, 1, 0, true, dtypes, 1);
  }
  for (const std::string& level : runnable_cpu_levels()) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      for (bool special : {false, true}) {
        input.fill(p, 7, special);
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
  OwnedData input(p, 2);
  for (int i = 0; i < 1100; ++i) {
    std::vector<DType> dtypes = {i % 2 == 0 ? DType::f16 : DType::f32, DType::bf16, DType::f32};
    input.add_tensor(p, static_cast<uint64_t>(i % 70), i % 2, i % 11 != 0, dtypes, i % 3);
  }
  input.fill(p, 5, false);
  for (const std::string& level : runnable_cpu_levels()) {
    for (Form form : {Form::fused, Form::unfused}) {
      CAPTURE(level);
      CAPTURE(name(form));
      CHECK(compare_with_interpreter(p, input, {.form = form, .level = level}, 2) == "");
    }
  }
}
