// Ops written in terms of other ops (expansions/*.sf), for machines that do not have them. An emitter
// writes what its machine has, and the rest as functions made from this code, or inline. Knows the
// plan.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/plan/plan.hpp"

namespace stepfuse::plan {

struct Expansion {
  std::string name;  // an identifier: sf_op_rint_f32_f32
  Op op = Op::cast;
  DType in = DType::f32;      // type of the deciding operand
  DType out = DType::f32;     // type of the result
  std::vector<Value> values;  // the first ones are the operands; all are per step
  std::vector<Inst> code;
  Id result = kNone;
};

// Returns all expansions, in the order of the files.
std::vector<const Expansion*> all_expansions();

// Whether a backend's own instruction gives an op's bits for these types on every input.
using IsNative = std::function<bool(Op op, DType in, DType out)>;

// Returns what a backend uses for an op; null: its own instruction. `within` is the expansion around the
// op, if any: in it the op that it defines, bitcast and shifts are always the machine's own.
const Expansion* expansion_of(Op op, DType in, DType out, const Expansion* within,
                              const IsNative& is_native);

// Returns the expansions that the plan's code needs. Each follows the ones that it needs itself.
std::vector<const Expansion*> needed_expansions(const KernelPlan& plan, const IsNative& is_native);

// The notation of a C or C++ emitter. `expression` writes an instruction of `within`.
struct Dialect {
  std::string_view function;  // "static inline"
  std::string (*type)(DType);
  std::string (*literal)(Bits, DType);
  std::string (*expression)(Op, DType in, DType out, const std::string& a, const std::string& b,
                            const std::string& c, const Expansion* within);
};
std::string function_text(const Expansion& expansion, const Dialect& dialect);
// Returns the expression that calls the expansion.
std::string call_text(const Expansion& expansion, const std::string& a, const std::string& b,
                      const std::string& c);

}  // namespace stepfuse::plan
