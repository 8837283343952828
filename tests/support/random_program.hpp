// Random valid programs: every op, dtype and granularity, reductions, predicates, bound buffers, states,
// reports, stages, and names that are hard to write as a kernel's. Knows ir.
#pragma once

#include <cstdint>

#include <stepfuse/program.hpp>

namespace stepfuse::testing {

struct ProgramOptions {
  int max_ops = 16;  // grown in the middle; sources and effects come on top
  // Reductions of values that are not per element, which compiled steps may refuse.
  bool coarse_reductions = false;
};

// The same program for the same seed and options, always.
Program random_program(uint64_t seed, const ProgramOptions& options = {});

}  // namespace stepfuse::testing
