// CUDA text of the end of a step: the last block of the last launch writes the states, and all blocks write
// those of rows and columns. Knows the plan.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

class FinishEmitter {
 public:
  // `phase` is the phase of the same kernel whose step values are available; -1 if there is none.
  FinishEmitter(Emission& e, int32_t phase)
      : e_(e), finish_(e.plan.finish), struct_("FinishStep"), phase_(phase) {
    auto add_if_step = [&](Id v) {
      if (v == kNone || e_.plan[v].at != per::step || e_.is_constant(v)) return;
      step_.insert(v);
    };
    for (const plan::Writes& block : finish_.writes) {
      for (const plan::Write& w : block.writes) {
        add_if_step(w.value);
        add_if_step(w.predicate);
      }
      for (const Level<plan::Inst>& level : block.code) for_each_operand(level.code, add_if_step);
    }
    inherit();
  }

  // Returns the values that the phase computes and the finish uses directly.
  const ValueSet& inherited() const { return inherited_; }

  void emit_struct() {
    if (!own_.empty()) cuda::emit_struct(e_, struct_, own_);
  }

  // Writes per-row and per-column states. No other state is written before all blocks have done this.
  void emit_shared() {
    emit_step();
    for (auto block = finish_.writes.rbegin(); block != finish_.writes.rend(); ++block) {
      if (splits_tensor(block->at)) emit_lines(*block);
    }
  }

  // A state's old value is read only by the thread that writes it, or before any write.
  void emit() {
    if (!plan::writes_lines(e_.plan)) emit_step();
    const plan::Writes* of_step = nullptr;
    for (auto block = finish_.writes.rbegin(); block != finish_.writes.rend(); ++block) {
      if (block->at == per::tensor) emit_tensors(*block);
      if (block->at == per::group) emit_groups(*block);
      if (block->at == per::step) of_step = &*block;
    }
    e_.out.open("if (threadIdx.x == 0)");
    if (of_step != nullptr) emit_writes(*of_step, "0");
    emit_reports();
    e_.out.close();
  }

 private:
  // Splits the step values into those that the phase left in shared memory and the finish's own.
  void inherit() {
    ValueSet at_hand;
    if (phase_ >= 0) {
      for (const plan::Inst& inst : e_.plan.phase(phase_).uniform.of(per::step))
        at_hand.insert(inst.value);
    }
    for (Id v : step_) (at_hand.contains(v) ? inherited_ : own_).insert(v);
    for (const plan::Inst& inst : finish_.step) {
      if (at_hand.contains(inst.value)) continue;
      lines_.push_back(inst);
      for_each_operand(inst, [&](Id o) {
        if (at_hand.contains(o)) inherited_.insert(o);
      });
    }
  }

  void emit_step() {
    if (!inherited_.empty()) emit_copies_from(e_, step_variable(phase_), inherited_);
    if (own_.empty()) return;
    e_.out.line(fmt::format("__shared__ {} own;", struct_));
    e_.out.open("if (threadIdx.x == 0)");
    emit_uniform_lines(e_, lines_);
    emit_copies_to(e_, "own", own_);
    e_.out.close();
    e_.out.line("__syncthreads();");
    emit_copies_from(e_, "own", own_);
  }

  // A thread processes several tensors at once, so that the computation for one tensor does not wait for
  // the writes of a different one.
  void emit_tensors(const plan::Writes& block) {
    e_.out.line("constexpr u32 kAtOnce = 4;");
    e_.out.pragma("#pragma unroll 1");
    e_.out.open(
        "for (u32 first = threadIdx.x; first < ctx.step.tensor_count; first += kAtOnce * "
        "kThreads)");
    e_.out.line("bool here[kAtOnce];");
    const std::vector<plan::Write>& writes = block.writes;
    for (size_t i = 0; i < writes.size(); ++i) {
      e_.out.line(fmt::format("{} new_{}[kAtOnce];", c_type(state(writes[i].state).dtype), i));
      if (has_own_predicate(writes[i])) e_.out.line(fmt::format("bool if_{}[kAtOnce];", i));
    }
    auto for_each = [&](auto&& body) {
      e_.out.pragma("#pragma unroll");
      e_.out.open("for (u32 k = 0; k < kAtOnce; ++k)");
      e_.out.line("const u32 wanted = first + k * kThreads;");
      body();
      e_.out.close();
    };
    for_each([&] {
      e_.out.line("const u32 tensor_index = wanted < ctx.step.tensor_count ? wanted : first;");
      e_.out.line("const abi::Tensor& tensor = ctx.step.tensors[tensor_index];");
      e_.out.line("here[k] = wanted == tensor_index && (tensor.flags & abi::kPresent) != 0;");
      emit_tensor_lines(e_, block.code);
      for (size_t i = 0; i < writes.size(); ++i) {
        e_.out.line(fmt::format("new_{}[k] = {};", i, e_.name(writes[i].value)));
        if (!has_own_predicate(writes[i])) continue;
        e_.out.line(fmt::format("if_{}[k] = {};", i, e_.name(writes[i].predicate)));
      }
    });
    for_each([&] {
      e_.out.line("if (!here[k]) continue;");
      for (size_t i = 0; i < writes.size(); ++i) {
        const plan::Write& w = writes[i];
        std::string condition = has_own_predicate(w) ? fmt::format("if (if_{}[k]) ", i)
                                : w.predicate != kNone
                                    ? fmt::format("if ({}) ", e_.name(w.predicate))
                                    : "";
        e_.out.line(fmt::format("{}{}[wanted] = new_{}[k];", condition, array_of(w.state), i),
                    w.text);
      }
    });
    e_.out.close();
    e_.out.line("__syncthreads();");
  }
  // Whether the predicate is computed per tensor instead of once per step.
  bool has_own_predicate(const plan::Write& w) const {
    return w.predicate != kNone && e_.plan[w.predicate].at != per::step;
  }

  void emit_lines(const plan::Writes& block) {
    e_.out.open("", fmt::format("states per {}", info(block.at).name));
    open_members(e_, block.at);
    e_.out.line("const abi::Tensor& tensor = ctx.step.tensors[tensor_index];");
    e_.out.line("if ((tensor.flags & abi::kPresent) == 0) continue;");
    emit_tensor_lines(e_, block.code);
    emit_uniform_lines(e_, block.code.of(block.at));
    emit_writes(block, info(block.at).name);
    e_.out.close();
    e_.out.close();
  }

  void emit_groups(const plan::Writes& block) {
    e_.out.pragma("#pragma unroll 1");
    e_.out.open("for (u32 group = threadIdx.x; group < ctx.step.group_count; group += kThreads)");
    emit_uniform_lines(e_, block.code.of(per::group));
    emit_writes(block, "group");
    e_.out.close();
    e_.out.line("__syncthreads();");
  }

  void emit_writes(const plan::Writes& block, std::string_view place) {
    for (const plan::Write& w : block.writes) {
      std::string condition =
          w.predicate == kNone ? "" : fmt::format("if ({}) ", e_.name(w.predicate));
      e_.out.line(
          fmt::format("{}{}[{}] = {};", condition, array_of(w.state), place, e_.name(w.value)),
          w.text);
    }
  }
  std::string array_of(int32_t s) const {
    return fmt::format("global<{}>(ctx.step.states, {})", c_type(state(s).dtype), s);
  }

  // Reports the values that this thread has just written to the host.
  void emit_reports() {
    const std::vector<int32_t>& reports = finish_.reports;
    auto has_members = [&](int32_t s) { return state(s).at != per::step; };
    auto lists = std::find_if(reports.begin(), reports.end(), has_members);
    std::string width = fmt::format("{}", lists - reports.begin() + 1);
    for (auto s = lists; s != reports.end(); ++s) width += " + " + member_count(*s);
    if (lists != reports.end()) width = "(" + width + ")";
    e_.out.line("const u32 number = count_step(ctx);");
    e_.out.open("if (ctx.reports != nullptr)");
    e_.out.line(fmt::format(
        "u64* const record = ctx.reports + u64(number % ctx.report_capacity) * {};", width));
    e_.out.line("withdraw(record);");
    auto source = [&](int32_t s, std::string_view member) {
      return fmt::format("raw_of({}[{}])", array_of(s), member);
    };
    auto note = [&](int32_t s) { return "report " + state(s).text; };
    int place = 0;
    for (auto s = reports.begin(); s != lists; ++s) {
      e_.out.line(fmt::format("record[{}] = {};", ++place, source(*s, "0")), note(*s));
    }
    std::string before = fmt::format("{}", place + 1);
    for (auto s = lists; s != reports.end(); ++s) {
      e_.out.pragma("#pragma unroll 1");
      e_.out.open(fmt::format("for (u32 member = 0; member < {}; ++member)", member_count(*s)),
                  note(*s));
      e_.out.line(fmt::format("record[{} + member] = {};", before, source(*s, "member")));
      e_.out.close();
      before += " + " + member_count(*s);
    }
    e_.out.line("publish(record, number);");
    e_.out.close();
  }
  const plan::State& state(int32_t s) const { return e_.plan.states[static_cast<size_t>(s)]; }
  std::string member_count(int32_t s) const {
    return state(s).at == per::group ? "ctx.step.group_count" : "ctx.step.tensor_count";
  }

  Emission& e_;
  const plan::Finish& finish_;
  std::string struct_;
  int32_t phase_;
  ValueSet step_;  // step values that writes and finer code use: inherited_ and own_
  ValueSet inherited_, own_;
  std::vector<plan::Inst> lines_;  // step values that are still to be computed
};

}  // namespace

ValueSet inherited_values(Emission& e, int32_t phase) {
  return FinishEmitter(e, phase).inherited();
}

void emit_finish_structs(Emission& e, int32_t phase) { FinishEmitter(e, phase).emit_struct(); }

void emit_finish_of_lines(Emission& e, int32_t phase) { FinishEmitter(e, phase).emit_shared(); }

void emit_finish(Emission& e, int32_t phase) { FinishEmitter(e, phase).emit(); }

}  // namespace stepfuse::cuda
