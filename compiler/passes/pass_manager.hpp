// Runs the passes in their fixed order, checks each and reports what it did. Knows ir and signatures.
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

// Returns the passes in their order. There is no other list.
std::span<const Pass> optimization_passes();

struct PassRecord {
  std::string_view name;
  int round = 1;
  bool changed = false;
  int before = 0;  // number of instructions
  int after = 0;
  double seconds = 0;  // includes verification; 0 without a clock
  Program result;      // empty if unchanged
};

// optimize() fills it to show what happened.
struct PassTrace {
  // Seconds since any point; this layer does not read a clock itself.
  std::function<double()> clock;
  Program input;
  std::vector<PassRecord> records;
};

// Repeats the list until a round changes nothing. Every result is verified: a pass that breaks a rule is a
// bug of ours, and the error names it. `program` must be valid. `signatures` are those of the layout, or
// none to leave every buffer unbound.
Program optimize(const Program& program, std::span<const Signature> signatures,
                 PassTrace* trace = nullptr);

// Prints the program before the passes, and after each pass the program or "unchanged" (`--emit=passes`).
std::string print(const PassTrace& trace);

}  // namespace stepfuse
