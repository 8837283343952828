// Finds values that depend only on one loaded byte, and computes them for its 256 patterns. Knows the plan
// and the meaning of ops.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/plan/plan.hpp"
#include "ir/formats/code_table.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/semantics.hpp"

namespace stepfuse::plan {
namespace {

using Patterns = std::array<Bits, 256>;

struct Function {
  Id byte = kNone;  // the load that it depends on
  Patterns values;
  bool pays = false;  // it contains an op that takes longer than a look-up
};

bool is_long(const Inst& inst) {
  bool widens = inst.op == Op::cast && is_low_precision(inst.in) && inst.out == DType::f32;
  return widens || inst.op == Op::lookup || inst.op == Op::div || inst.op == Op::sqrt;
}

Bits evaluate(const KernelPlan& plan, const Inst& inst, const std::array<Bits, 3>& in) {
  if (inst.op == Op::lookup) return Bits::of(table_value(plan.table(inst).values, in[0].i32()));
  if (inst.op == Op::nearest) {
    return Bits::of(nearest_code(plan.table(inst).values, in[0].f32()));
  }
  return sem::evaluate(inst.op, inst.in, inst.out, in[0], in[1], in[2]);
}

class Finder {
 public:
  Finder(const KernelPlan& plan, const Body& body) : plan_(plan), body_(body) {}

  std::vector<ByteFunction> run() {
    FpEnvGuard guard;
    std::set<Id> used;  // values used by anything that is not such a function
    for (const Inst& inst : body_.code) {
      if (!find(inst)) for_each_operand(inst, [&](Id o) { used.insert(o); });
    }
    for (const Combine& c : body_.reductions) used.insert(c.operand);
    for (const Store& s : body_.stores) used.insert(s.value);
    std::vector<ByteFunction> out;
    for (const Inst& inst : body_.code) {
      auto found = found_.find(inst.value);
      if (found == found_.end() || inst.out != DType::f32) continue;
      if (!found->second.pays || !used.contains(inst.value)) continue;
      ByteFunction& f = out.emplace_back();
      f.value = inst.value;
      f.byte = found->second.byte;
      for (Bits v : found->second.values) f.values.push_back(v.f32());
    }
    return out;
  }

 private:
  bool find(const Inst& inst) {
    if (inst.op == Op::load) {
      const ArrayUse& use = body_.arrays[static_cast<size_t>(inst.index)];
      if (size_of(inst.out) != 1 || inst.out == DType::boolean ||
          block_of(plan_.array(use).at) != 1) {
        return false;
      }
      Function& f = found_[inst.value];
      f.byte = inst.value;
      for (size_t k = 0; k < f.values.size(); ++k) f.values[k].raw = k;
      return true;
    }
    if (inst.arity() == 0 || inst.reduces_block() || inst.op == Op::random) return false;
    Function f;
    bool is_function = true;
    for_each_operand(inst, [&](Id o) {
      auto found = found_.find(o);
      if (found == found_.end()) {
        is_function &= plan_[o].is_constant;
        return;
      }
      is_function &= f.byte == kNone || f.byte == found->second.byte;
      f.byte = found->second.byte;
      f.pays |= found->second.pays;
    });
    if (!is_function || f.byte == kNone) return false;
    f.pays |= is_long(inst);
    for (size_t k = 0; k < f.values.size(); ++k) {
      std::array<Bits, 3> in;
      for (size_t i = 0; i < static_cast<size_t>(inst.arity()); ++i) {
        Id o = inst.operands[i];
        auto found = found_.find(o);
        in[i] = found == found_.end() ? plan_[o].literal : found->second.values[k];
      }
      f.values[k] = canonical_nan(evaluate(plan_, inst, in), inst.out);
    }
    found_[inst.value] = f;
    return true;
  }

  const KernelPlan& plan_;
  const Body& body_;
  std::map<Id, Function> found_;
};

}  // namespace

std::vector<ByteFunction> byte_functions_of(const KernelPlan& plan, const Body& body) {
  return Finder(plan, body).run();
}

}  // namespace stepfuse::plan
