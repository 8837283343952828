// The state writes at the end of a step. Knows the schedule, the kernel ABI, and the expression
// table.
//
// Everything is computed from the states before the step: tensor states are written first, for
// their code may read group and step states, then group states, then step states.
#include <cstddef>

#include "compiler/abi.hpp"
#include "compiler/emit_llvm_phase.hpp"
#include "compiler/emit_llvm_uniform.hpp"

namespace stepfuse::llvm {
namespace {

class FinishEmitter {
 public:
  FinishEmitter(const Schedule& schedule, Module& module)
      : p_(schedule.program),
        finish_(schedule.finish),
        u_(schedule, module, f_),
        ops_(module, f_, 1) {}

  std::string run() {
    u_.evaluate(finish_.uniform.step);
    // Every step write is decided before any state changes: the code above read all it needs.
    if (writes_to(Domain::tensor)) tensors();
    if (writes_to(Domain::group)) groups();
    write_all(Domain::step, "0");
    f_.line("ret void");
    return f_.take("void @sf_finish(ptr %ctx) #0");
  }

 private:
  Domain domain_of(ValueId write) const {
    return p_.states[static_cast<size_t>(p_[write].slot)].type.domain;
  }
  bool writes_to(Domain d) const {
    for (ValueId w : finish_.writes) {
      if (domain_of(w) == d) return true;
    }
    return false;
  }

  // Calls `body` in a loop over [0, count); `body` gets the index and the label to go on at.
  template <class F>
  void loop(std::string_view hint, const std::string& count, F&& body) {
    std::string before = f_.label(fmt::format("{}.before", hint));
    std::string test = f_.label(fmt::format("{}.test", hint));
    std::string work = f_.label(fmt::format("{}.work", hint));
    std::string next = f_.label(fmt::format("{}.next", hint));
    std::string end = f_.label(fmt::format("{}.end", hint));
    f_.jump(before);
    f_.block(before);
    f_.jump(test);
    f_.block(test);
    std::string i_next = f_.name("next");
    std::string i = f_.set(hint, "phi i64 [ 0, %{} ], [ {}, %{} ]", before, i_next, next);
    std::string more = f_.set("more", "icmp ult i64 {}, {}", i, count);
    f_.branch(more, work, end);
    f_.block(work);
    body(i, next);
    f_.jump(next);
    f_.block(next);
    f_.line("{} = add i64 {}, 1", i_next, i);
    f_.jump(test);
    f_.block(end);
  }

  void tensors() {
    loop("tensor", u_.tensor_count, [&](const std::string& t, const std::string& next) {
      std::string record = f_.address("tensor.at", u_.tensors, t, sizeof(abi::Tensor));
      std::string flags = field(record, offsetof(abi::Tensor, flags), "flags");
      std::string here =
          f_.set("present", "and i32 {}, {}", flags, static_cast<unsigned>(abi::kPresent));
      std::string present = f_.set("present", "icmp ne i32 {}, 0", here);
      std::string work = f_.label("present");
      f_.branch(present, work, next);
      f_.block(work);
      std::string group = field(record, offsetof(abi::Tensor, group), "group");
      u_.set_group(f_.set("group", "zext i32 {} to i64", group));
      u_.set_tensor(t);
      u_.evaluate(finish_.uniform.group);
      u_.evaluate(finish_.uniform.tensor);
      write_all(Domain::tensor, t);
    });
  }

  void groups() {
    loop("group", u_.group_count, [&](const std::string& g, const std::string&) {
      u_.set_group(g);
      u_.evaluate(finish_.uniform.group);
      write_all(Domain::group, g);
    });
  }

  std::string field(const std::string& record, size_t offset, std::string_view hint) {
    std::string at = f_.set(hint, "getelementptr i8, ptr {}, i64 {}", record, offset);
    return f_.set(hint, "load i32, ptr {}", at);
  }

  void write_all(Domain d, const std::string& index) {
    for (ValueId w : finish_.writes) {
      if (domain_of(w) == d) write(p_[w], index);
    }
  }

  void write(const Inst& inst, const std::string& index) {
    auto slot = static_cast<size_t>(inst.slot);
    const State& state = p_.states[slot];
    std::string skip;
    if (inst.predicate != kNoValue) {
      std::string yes = f_.label("write");
      skip = f_.label("write.end");
      f_.branch(u_[inst.predicate], yes, skip);
      f_.block(yes);
    }
    DType t = state.type.dtype;
    ops_.store(t, u_[inst.operands[0]], u_.element(u_.states, slot, index, size_of(t), state.name));
    if (skip.empty()) return;
    f_.jump(skip);
    f_.block(skip);
  }

  const Program& p_;
  const Finish& finish_;
  Function f_;
  Uniform u_;
  Ops ops_;
};

}  // namespace

std::string emit_finish(const Schedule& schedule, Module& module) {
  return FinishEmitter(schedule, module).run();
}

}  // namespace stepfuse::llvm
