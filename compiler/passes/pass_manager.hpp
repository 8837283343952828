// Runs the passes in their one order, checks each and tells what it did. Knows ir and signatures.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/program.hpp>

#include "compiler/signature.hpp"

namespace stepfuse {

struct Pass {
  std::string_view name;
  Program (*run)(const Program& program, std::span<const Signature> signatures);
};

// The one list, in its order.
std::span<const Pass> optimization_passes();

struct PassRecord {
  std::string_view name;
  int round = 1;
  bool changed = false;
  int before = 0;  // instructions
  int after = 0;
  double seconds = 0;  // with verification; 0 without a clock
  Program result;      // empty if unchanged
};

// Filled by optimize() for who wants to see what happened.
struct PassTrace {
  std::function<double()> clock;  // seconds from anywhere; this layer reads no clock itself
  Program input;
  std::vector<PassRecord> records;
};

// Runs the list until a round of it changes nothing. Every result is verified: a pass that breaks
// a rule is a bug of ours and named. `program` must be valid; `signatures` are those of the layout,
// or none to leave every buffer unbound.
Program optimize(const Program& program, std::span<const Signature> signatures,
                 PassTrace* trace = nullptr);

// The program before, and after each pass or "unchanged" (`--emit=passes`).
std::string print(const PassTrace& trace);

}  // namespace stepfuse
