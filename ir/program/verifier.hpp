// The rules every Program obeys. Knows ir only.
//
//   V1  an operand is defined before its use, and is not an effect
//   V2  the type of every value follows from the op's type rule (ops.hpp)
//   V3  a value's domain is the finest of its operands'; a reduction's is coarser than its operand's
//   V4  the element domain has no f64 and no i64; floats below f32 are only loaded, cast and stored
//   V5  a value of a bound type is loaded, cast to f32 in the element domain, cast to, or stored
//   V6  `in` buffers are not stored, `out` buffers are not loaded
//   V7  each buffer and each state is stored at most once
//   V8  a stored value has the buffer's storage type, in any domain
//   V9  a written value has the state's dtype and a domain no finer than the state's
//   V10 a predicate is bool, in a domain no finer than what it guards
//   V11 reports are never read, and written once
//   V12 names are unique within their kind, and non-empty words
//   V13 a buffer lists storage types: floats up to f32 in any combination, or i32 alone; what it is
//       initialised from is declared before it
//   V14 states are f32 f64 i32 i64 bool in the step, group or tensor domain; shared ones step
//   V15 args are the first values, in order, f32 f64 i32 i64 bool, in the step, group or tensor domain
//   V16 a constant is of the step domain and its bits fit its dtype
//   V17 the program has an effect
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/program.hpp>

#include "ir/program/type_rules.hpp"

namespace stepfuse {

struct Diagnostic {
  int rule = 0;  // the number above
  SourceLoc loc;
  std::string message;      // names what is wrong and what would be right
  ValueId inst = kNoValue;  // of which this part is wrong
  int part = kWhole;
};

// All violations, in program order; empty if the program is valid. Never throws on bad programs.
std::vector<Diagnostic> find_violations(const Program& program);

// Throws Error{verify} with all violations.
void verify(const Program& program);

}  // namespace stepfuse
