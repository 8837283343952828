// Compiles a generated C kernel with a local compiler and runs it in a separate process. Knows the
// plan.
#pragma once

#include <string>
#include <vector>

#include "compiler/variant.hpp"
#include "ir/semantics/step_data.hpp"

namespace stepfuse::testing {

struct CCompiler {
  std::string name;
  std::string command;   // the compiler with its flags
  std::string emulator;  // runs the program if this machine cannot
};

// The installed compilers. The missing ones are printed as skipped.
std::vector<CCompiler> c_compilers();

// Does the same as interpret(). Throws std::runtime_error with the message of the compiler or the
// program.
void run_c(const Variant& variant, const std::string& text, const CCompiler& compiler,
           StepData& data);

}  // namespace stepfuse::testing
