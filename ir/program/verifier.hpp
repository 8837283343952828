// The rules V1 to V20 that every Program obeys; ir/README.md lists them. Knows ir only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/program.hpp>

#include "ir/program/type_rules.hpp"

namespace stepfuse {

struct Diagnostic {
  int rule = 0;  // the number in the list above
  SourceLoc loc;
  std::string message;      // says what is wrong and what would be right
  ValueId inst = kNoValue;  // the instruction; `part` is the wrong part of it
  int part = kWhole;
};

// Returns all violations, in program order; empty if the program is valid. Never throws on bad programs.
std::vector<Diagnostic> find_violations(const Program& program);

// Throws Error{verify} with all violations.
void verify(const Program& program);

}  // namespace stepfuse
