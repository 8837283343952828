// Compiles a generated C kernel with a compiler of the machine and runs it in a process of its own.
// Knows the plan.
#pragma once

#include <string>
#include <vector>

#include "compiler/variant.hpp"
#include "ir/semantics/step_data.hpp"

namespace stepfuse::testing {

struct CCompiler {
  std::string name;
  std::string command;   // with its flags
  std::string emulator;  // what runs the program, if not this machine
};

// Those that are here; what is missing is printed as skipped.
std::vector<CCompiler> c_compilers();

// As interpret() does. Throws std::runtime_error with the compiler's or the program's complaint.
void run_c(const Variant& variant, const std::string& text, const CCompiler& compiler,
           StepData& data);

}  // namespace stepfuse::testing
