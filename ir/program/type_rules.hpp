// The relation of operand and result types, op by op: rule V2 of the verifier, and parts of other rules
// that depend on the op. Knows ir and fmt.
#pragma once

#include <functional>
#include <string>

#include <stepfuse/program.hpp>

namespace stepfuse {

constexpr bool is_real(DType t) { return t == DType::f32 || t == DType::f64; }
constexpr bool is_number(DType t) { return is_real(t) || is_integer(t); }

// Returns the type's text, even for a bound type that names no buffer of the program.
std::string type_text(const Program& program, Type t);

// Whether every op, type and access exists, which a program made by hand may violate. Tables are indexed by
// them.
bool has_known_enums(const Program& program);

// A part of an instruction: the operand with that number, or one of these.
enum Part : int { kWhole = -1, kPredicate = 3, kType = 4 };

// Receives the wrong part of the instruction, the number of the broken rule, and a message.
using Report = std::function<void(int part, int rule, const std::string& message)>;

// Checks an elementwise op or a reduction whose operands are values of the program.
void check_types(const Program& program, const Inst& inst, const Report& report);

}  // namespace stepfuse
