// Compiles and disassembles a step, and matches its streaming loops with phases. Knows the
// compiler's variants and NVRTC.
#pragma once

#include <string>
#include <vector>

#include "compiler/variant.hpp"
#include "tools/sass/model.hpp"

namespace stepfuse::sass {

// A loop with the phase and signature of the plan that it belongs to.
struct PhaseLoop {
  std::string kernel;
  int phase = -1;
  int signature = -1;
  // the phase reduces nothing, so its chunks can be split; parts of rows and columns are not
  // counted
  bool splits = false;
  Budget budget;
  Occupancy occupancy;
  std::vector<std::string> findings;
};

struct Report {
  int arch = 0;
  std::string disassembler;  // "nvdisasm 13.2"
  std::vector<PhaseLoop> loops;
};

// Throws Error{device} if NVRTC or nvdisasm is missing.
Report report_of(const Variant& variant, int arch);

}  // namespace stepfuse::sass
