// A kernel on the PTX machine beside the interpreter, as it is or with a fault in its text. Knows
// the emitter, the PTX machine and the interpreter.
#pragma once

#include <string>

#include "tests/ptx/device_runner.hpp"
#include "tests/support/random_data.hpp"

namespace stepfuse::testing {

struct Outcome {
  std::string fault;       // what the machine found
  std::string difference;  // of the results from the interpreter's
  std::string any() const { return fault.empty() ? difference : fault; }
};

// With the first `from`, which must be there, replaced; an empty one: as it is.
std::string replaced(std::string text, const std::string& from, const std::string& to);

// Runs what was made of `program` for sm_90, with `from` in its text replaced by `to`.
Outcome run_edited(const Program& program, Variant variant, const TestData& input,
                   const DeviceRun& options, const std::string& from = "",
                   const std::string& to = "");

}  // namespace stepfuse::testing
