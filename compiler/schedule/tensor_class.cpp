// Reduces a body for tensors that have only some of the buffers. Knows ir.
#include "compiler/schedule/tensor_class.hpp"

#include <algorithm>

namespace stepfuse {

ValueId chosen(const Schedule& schedule, ValueId select, size_t signature) {
  const Program& p = schedule.program;
  const Inst& inst = p[select];
  if (inst.op != Op::select) return kNoValue;
  const Inst& condition = p[inst.operands[0]];
  if (condition.op != Op::lt) return kNoValue;
  const Inst& number = p[condition.operands[1]];
  if (p[condition.operands[0]].op != Op::element_count || number.op != Op::constant) {
    return kNoValue;
  }
  TensorSizes sizes = sizes_of(p, schedule.signatures[signature]);
  auto limit = static_cast<uint64_t>(std::max<int64_t>(number.literal.i64(), 0));
  if (sizes.below <= limit) return inst.operands[1];
  return sizes.from >= limit ? inst.operands[2] : kNoValue;
}

Body body_for(const Schedule& schedule, const Body& body, size_t signature) {
  const Program& p = schedule.program;
  const Signature& types = schedule.signatures[signature];
  bool of_all = std::all_of(p.buffers.begin(), p.buffers.end(),
                            [](const Buffer& b) { return b.is_of_all(); });
  if (of_all) return body;

  Body out = body;
  std::erase_if(out.stores, [&](const StoreAction& a) {
    return types[static_cast<size_t>(p[a.store].slot)] == DType::absent;
  });
  std::vector<bool> needed(p.insts.size(), false);
  auto need = [&](ValueId v) {
    if (v != kNoValue) needed[static_cast<size_t>(v)] = true;
  };
  for (ValueId r : out.reductions) need(p[r].operands[0]);
  for (const StoreAction& a : out.stores) {
    need(p[a.store].operands[0]);
    need(a.predicate);
  }
  for (const Crossing& k : out.keeps) need(k.value);
  for (auto v = body.code.rbegin(); v != body.code.rend(); ++v) {
    if (!needed[static_cast<size_t>(*v)] || is_folded(p[*v])) continue;
    ValueId one = chosen(schedule, *v, signature);
    if (one != kNoValue) {
      need(one);
    } else {
      for_each_operand(p[*v], need);
    }
  }
  auto is_dead = [&](ValueId v) { return !needed[static_cast<size_t>(v)]; };
  std::erase_if(out.code, is_dead);
  std::erase_if(out.fetches, [&](const Crossing& k) { return is_dead(k.value); });
  return out;
}

}  // namespace stepfuse
