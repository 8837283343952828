// How the types of operands and result go together, op by op: the verifier's rule V2, and what of other
// rules is the op's own. Knows ir and fmt.
#pragma once

#include <functional>
#include <string>

#include <stepfuse/program.hpp>

namespace stepfuse {

constexpr bool is_real(DType t) { return t == DType::f32 || t == DType::f64; }
constexpr bool is_number(DType t) { return is_real(t) || is_integer(t); }

// The type's text, also of a bound type that names no buffer of the program's.
std::string type_text(const Program& program, Type t);

// Whether every op, type and access is one that there is, which a program made by hand may miss. Tables are
// indexed by them.
bool has_known_enums(const Program& program);

// A part of an instruction: the operand of that number, or one of these.
enum Part : int { kWhole = -1, kPredicate = 3, kType = 4 };

// Which part of the instruction is wrong, the number of the broken rule, and what
// is wrong.
using Report = std::function<void(int part, int rule, const std::string& message)>;

// Of elementwise ops and reductions, whose operands are values of the program.
void check_types(const Program& program, const Inst& inst, const Report& report);

}  // namespace stepfuse
