// Ops written once in terms of other ops (expansions/*.sf), for machines that do not have them. An
// emitter does what it can itself and writes the rest as functions of this code, or in place. Knows
// the plan.
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
  DType in = DType::f32;      // of the operand that decides
  DType out = DType::f32;     // of the result
  std::vector<Value> values;  // the first ones are the operands; all of the step domain
  std::vector<Inst> code;
  Id result = kNone;
};

// All of them, in the order of the files.
std::vector<const Expansion*> all_expansions();

// Whether a backend's own way gives an op's bits on these types, on every input.
using IsNative = std::function<bool(Op op, DType in, DType out)>;

// What a backend takes for an op; null: its own instruction. `within` is the expansion that the op stands
// in, if it does: there the op that is being defined, bitcast and shifts are always the machine's own.
const Expansion* expansion_of(Op op, DType in, DType out, const Expansion* within,
                              const IsNative& is_native);

// Those that the plan's code needs, each behind the ones that it needs itself.
std::vector<const Expansion*> needed_expansions(const KernelPlan& plan, const IsNative& is_native);

// How an emitter of C or C++ writes things; `expression` of an instruction of `within`.
struct Dialect {
  std::string_view function;  // "static inline"
  std::string (*type)(DType);
  std::string (*literal)(Bits, DType);
  std::string (*expression)(Op, DType in, DType out, const std::string& a, const std::string& b,
                            const std::string& c, const Expansion* within);
};
std::string function_text(const Expansion& expansion, const Dialect& dialect);
// The expression that calls it.
std::string call_text(const Expansion& expansion, const std::string& a, const std::string& b,
                      const std::string& c);

}  // namespace stepfuse::plan
