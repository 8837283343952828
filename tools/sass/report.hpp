// The streaming loops of a step's machine code, phase by phase: compiles, disassembles, matches.
// Knows the compiler's variants and NVRTC.
#pragma once

#include <string>
#include <vector>

#include "compiler/variant.hpp"
#include "tools/sass/model.hpp"

namespace stepfuse::sass {

// A loop and what it is of the plan.
struct PhaseLoop {
  std::string kernel;
  int phase = -1;
  int signature = -1;
  bool splits = false;  // the phase reduces nothing; parts of rows and columns are not counted
  Budget budget;
  Occupancy occupancy;
  std::vector<std::string> findings;
};

struct Report {
  int arch = 0;
  std::string disassembler;  // "nvdisasm 13.2"
  std::vector<PhaseLoop> loops;
};

// Throws Error{device} where NVRTC or nvdisasm is missing.
Report report_of(const Variant& variant, int arch);

}  // namespace stepfuse::sass
