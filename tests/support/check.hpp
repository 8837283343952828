// Properties of every valid program, one function per property. Knows ir and compiler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <stepfuse/form.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/support/random_data.hpp"

namespace stepfuse::testing {

// A description of the fault, or nothing.
using Fault = std::optional<std::string>;

// The seed decides layout, inputs and options from the names of the declarations alone, so that a
// shrunk program gets the same data.
struct Case {
  Program program;
  uint64_t seed = 0;
  TestLayout layout;
  Inputs inputs = Inputs::normal;

  Case(Program p, uint64_t s);
  TestData data() const { return TestData(program, layout, seed, inputs); }
};
Case random_case(uint64_t seed);

// print and parse are inverse.
Fault check_text(const Case& c);
// The interpreter gives the same bits before and after every pass.
Fault check_passes(const Case& c);

// How much was compared.
struct CpuCount {
  int programs = 0;
  int kernels = 0;  // compiled kernels; forms with the same text share one
  int runs = 0;
};
struct CpuCheckOptions {
  std::string level = "host";  // the processor level for compilation
  CpuCode code = CpuCode::optimized;
  std::vector<Form> forms = {Form::fused, Form::split, Form::unfused};
  CpuCount* count = nullptr;
};
// Compiled kernels of these forms give the interpreter's bits, on one thread and on two.
Fault check_cpu(const Case& c, const CpuCheckOptions& options = {});

}  // namespace stepfuse::testing
