// A kernel on the PTX machine beside the interpreter. Knows the emitter, the PTX machine and the
// interpreter.
#include "tests/ptx/edited_kernel.hpp"

#include <utility>

#include <doctest/doctest.h>

#include "compiler/cuda/emit.hpp"
#include "ir/semantics/interpreter.hpp"

namespace stepfuse::testing {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  if (from.empty()) return text;
  size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, from);
  return text.replace(at, from.size(), to);
}

Outcome run_edited(const Program& program, Variant variant, const TestData& input,
                   const DeviceRun& options, const std::string& from, const std::string& to) {
  std::string text = replaced(emit_cuda(variant.plan), from, to);
  TestData expected(input), actual(input);
  interpret(program, expected.step());
  Outcome out;
  try {
    DeviceRunner(std::move(variant), text, 90).run(actual.step(), options);
  } catch (const ptx::MachineError& error) {
    out.fault = error.what();
  }
  out.difference = difference(program, expected, actual).value_or("");
  return out;
}

}  // namespace stepfuse::testing
