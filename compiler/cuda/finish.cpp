// CUDA text of the end of a step: the last block of the last kernel writes the states. Knows the
// schedule.
#include <fmt/format.h>

#include "compiler/cuda/state.hpp"
#include "compiler/schedule/analysis.hpp"

namespace stepfuse::cuda {
namespace {

class FinishEmitter {
 public:
  // `phase`: the one of the same kernel whose step values are at hand; -1: there is none.
  FinishEmitter(Emission& e, int32_t phase)
      : e_(e), p_(e.p), code_(e.s.finish.uniform), struct_("FinishStep"), phase_(phase) {
    for (ValueId w : e.s.finish.writes) writes_[domain(w)].push_back(w);
    for (Domain d : {Domain::step, Domain::group, Domain::tensor}) {
      for (ValueId w : writes_[d]) {
        add_if_step(p_[w].operands[0]);
        add_if_step(p_[w].predicate);
      }
      for (ValueId v : lines(code_.group, d))
        for_each_operand(p_[v], [&](ValueId o) { add_if_step(o); });
      for (ValueId v : lines(code_.tensor, d))
        for_each_operand(p_[v], [&](ValueId o) { add_if_step(o); });
    }
    inherit();
  }

  // Values that the phase computes and the finish uses directly.
  const ValueSet& inherited() const { return inherited_; }

  void emit_struct() {
    if (!own_.empty()) cuda::emit_struct(e_, struct_, without_constants(e_, own_));
  }

  // A state's old value is read by its own writer only, or before anybody writes.
  void emit() {
    emit_step();
    if (!writes_[Domain::tensor].empty()) emit_tensors();
    if (!writes_[Domain::group].empty()) emit_groups();
    e_.out.open("if (threadIdx.x == 0)");
    emit_writes(Domain::step, "0");
    emit_reports();
    e_.out.close();
  }

 private:
  Domain domain(ValueId write) const {
    return p_.states[static_cast<size_t>(p_[write].slot)].type.domain;
  }
  void add_if_step(ValueId v) {
    bool shared = v != kNoValue && p_[v].type.domain == Domain::step && !e_.is_constant(v);
    if (shared) step_.insert(v);
  }

  // What of `list` the writes of one domain need, in order.
  std::vector<ValueId> lines(const std::vector<ValueId>& list, Domain d) const {
    ValueSet needed;
    auto add = [&](ValueId v) {
      if (v != kNoValue) needed.insert(v);
    };
    auto it = writes_.find(d);
    if (it == writes_.end()) return {};
    for (ValueId w : it->second) for_each_operand(p_[w], add);
    for (const auto* l : {&code_.tensor, &code_.group}) {
      for (auto v = l->rbegin(); v != l->rend(); ++v) {
        if (needed.contains(*v) && !is_reduction(p_[*v].op)) for_each_operand(p_[*v], add);
      }
    }
    std::vector<ValueId> out;
    for (ValueId v : list) {
      if (needed.contains(v)) out.push_back(v);
    }
    return out;
  }

  // Splits the step values into those that the phase left in shared memory and our own.
  void inherit() {
    ValueSet at_hand;
    if (phase_ >= 0) {
      const auto& list = e_.s.phases[static_cast<size_t>(phase_)].uniform.step;
      at_hand.insert(list.begin(), list.end());
    }
    for (ValueId v : step_) (at_hand.contains(v) ? inherited_ : own_).insert(v);
    for (ValueId v : code_.step) {
      if (at_hand.contains(v)) continue;
      lines_.push_back(v);
      if (is_reduction(p_[v].op)) continue;
      for_each_operand(p_[v], [&](ValueId o) {
        if (at_hand.contains(o) && !e_.is_constant(o)) inherited_.insert(o);
      });
    }
  }

  void emit_step() {
    if (!inherited_.empty()) {
      emit_copies_from(e_, step_variable(phase_), without_constants(e_, inherited_));
    }
    if (own_.empty()) return;
    std::vector<ValueId> values = without_constants(e_, own_);
    e_.out.line(fmt::format("__shared__ {} own;", struct_));
    e_.out.open("if (threadIdx.x == 0)");
    emit_uniform_lines(e_, lines_);
    emit_copies_to(e_, "own", values);
    e_.out.close();
    e_.out.line("__syncthreads();");
    emit_copies_from(e_, "own", values);
  }

  void emit_tensors() {
    e_.out.pragma("#pragma unroll 1");
    e_.out.open(
        "for (u32 tensor_index = threadIdx.x; tensor_index < ctx.step.tensor_count; "
        "tensor_index += kThreads)");
    e_.out.line("const abi::Tensor& tensor = ctx.step.tensors[tensor_index];");
    e_.out.line("if ((tensor.flags & abi::kPresent) == 0) continue;");
    std::vector<ValueId> group = lines(code_.group, Domain::tensor);
    if (!group.empty()) e_.out.line("const u32 group = tensor.group;");
    emit_uniform_lines(e_, group);
    emit_uniform_lines(e_, lines(code_.tensor, Domain::tensor));
    emit_writes(Domain::tensor, "tensor_index");
    e_.out.close();
    e_.out.line("__syncthreads();");
  }

  void emit_groups() {
    e_.out.pragma("#pragma unroll 1");
    e_.out.open("for (u32 group = threadIdx.x; group < ctx.step.group_count; group += kThreads)");
    emit_uniform_lines(e_, lines(code_.group, Domain::group));
    emit_writes(Domain::group, "group");
    e_.out.close();
    e_.out.line("__syncthreads();");
  }

  void emit_writes(Domain d, const std::string& place) {
    for (ValueId w : writes_[d]) {
      const Inst& inst = p_[w];
      const State& state = p_.states[static_cast<size_t>(inst.slot)];
      std::string condition;
      if (inst.predicate != kNoValue) {
        condition = fmt::format("if ({}) ", e_.names[inst.predicate]);
      }
      e_.out.line(
          fmt::format("{}global<{}>(ctx.step.states, {})[{}] = {};", condition,
                      c_type(state.type.dtype), inst.slot, place, e_.names[inst.operands[0]]),
          e_.comment(w));
    }
  }

  // What this thread has just written, to the host.
  void emit_reports() {
    std::vector<size_t> reports = report_states(p_);
    auto has_members = [&](size_t i) { return p_.states[i].type.domain != Domain::step; };
    auto lists = std::find_if(reports.begin(), reports.end(), has_members);
    std::string width = fmt::format("{}", lists - reports.begin() + 1);
    for (auto i = lists; i != reports.end(); ++i) width += " + " + member_count(*i);
    if (lists != reports.end()) width = "(" + width + ")";
    e_.out.line("const u32 number = count_step(ctx);");
    e_.out.open("if (ctx.reports != nullptr)");
    e_.out.line(fmt::format(
        "u64* const record = ctx.reports + u64(number % ctx.report_capacity) * {};", width));
    e_.out.line("withdraw(record);");
    auto source = [&](size_t i, std::string_view member) {
      return fmt::format("raw_of(global<{}>(ctx.step.states, {})[{}])",
                         c_type(p_.states[i].type.dtype), i, member);
    };
    auto note = [&](size_t i) { return "report @" + p_.states[i].name; };
    int place = 0;
    for (auto i = reports.begin(); i != lists; ++i) {
      e_.out.line(fmt::format("record[{}] = {};", ++place, source(*i, "0")), note(*i));
    }
    std::string before = fmt::format("{}", place + 1);
    for (auto i = lists; i != reports.end(); ++i) {
      e_.out.pragma("#pragma unroll 1");
      e_.out.open(fmt::format("for (u32 member = 0; member < {}; ++member)", member_count(*i)),
                  note(*i));
      e_.out.line(fmt::format("record[{} + member] = {};", before, source(*i, "member")));
      e_.out.close();
      before += " + " + member_count(*i);
    }
    e_.out.line("publish(record, number);");
    e_.out.close();
  }
  std::string member_count(size_t state) const {
    bool groups = p_.states[state].type.domain == Domain::group;
    return groups ? "ctx.step.group_count" : "ctx.step.tensor_count";
  }

  Emission& e_;
  const Program& p_;
  const UniformCode& code_;
  std::string struct_;
  std::map<Domain, std::vector<ValueId>> writes_;
  int32_t phase_;
  ValueSet step_;  // step values that writes and finer code use: inherited_ and own_
  ValueSet inherited_, own_;
  std::vector<ValueId> lines_;  // step values still to be computed
};

}  // namespace

ValueSet inherited_values(Emission& e, int32_t phase) {
  return FinishEmitter(e, phase).inherited();
}

void emit_finish_structs(Emission& e, int32_t phase) { FinishEmitter(e, phase).emit_struct(); }

void emit_finish(Emission& e, int32_t phase) { FinishEmitter(e, phase).emit(); }

}  // namespace stepfuse::cuda
