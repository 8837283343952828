// Loops over members of the coarser granularities: the state writes and the rollups. Knows the plan, the
// kernel ABI, and the expression table.
#include "compiler/llvm/members.hpp"

#include <cstddef>

namespace stepfuse::llvm {
namespace {

std::string field(Function& f, const std::string& record, size_t offset, std::string_view hint) {
  std::string at = f.set(hint, "getelementptr i8, ptr {}, i64 {}", record, offset);
  return f.set(hint, "load i32, ptr {}", at);
}

// Makes tensor `t` and its group those whose values are evaluated, and does the `work` with them.
void enter_tensor(Function& f, Uniform& u, const std::string& t, Absent absent,
                  const Function::Emit& work) {
  std::string record = f.address("tensor.at", u.tensors, t, sizeof(abi::Tensor));
  std::string flags = field(f, record, offsetof(abi::Tensor, flags), "flags");
  std::string here =
      f.set("present", "and i32 {}, {}", flags, static_cast<unsigned>(abi::kPresent));
  std::string present = f.set("present", "icmp ne i32 {}, 0", here);
  std::string group = field(f, record, offsetof(abi::Tensor, group), "group");
  u.set_group(f.set("group", "zext i32 {} to i64", group));
  u.set_tensor(t, absent == Absent::skip ? "true" : present);
  absent == Absent::skip ? f.if_("present", present, work) : work();
}

}  // namespace

void for_each_member(Function& f, Uniform& u, Granularity g, const plan::Uniform& code,
                     Absent absent, const std::function<void(const std::string&)>& body) {
  if (g == per::step) return body("0");
  if (g == per::group) {
    return f.loop("group", "0", u.group_count, [&](const std::string& m) {
      u.set_group(m);
      u.evaluate(code.of(g));
      body(m);
    });
  }
  f.loop("tensor", "0", u.tensor_count, [&](const std::string& t) {
    enter_tensor(f, u, t, absent, [&] {
      u.evaluate(code.of(per::group));
      u.evaluate(code.of(per::tensor));
      if (!splits_tensor(g)) return body(t);
      auto [first, end] = u.members_of(g, t);
      f.loop(info(g).name, first, end, [&](const std::string& m) {
        u.set_member(g, m);
        u.evaluate(code.of(g));
        body(m);
      });
    });
  });
}

std::string emit_rollup(const KernelPlan& plan, Module& module, size_t phase, size_t rollup) {
  const plan::Rollup& r = plan.phases[phase].rollups[rollup];
  Function f;
  Uniform u(plan, module, f);
  Ops ops(module, f, 1);
  u.evaluate(r.uniform.of(per::step));
  for_each_member(f, u, r.from, r.uniform, Absent::take, [&](const std::string& index) {
    for (const plan::Combine& c : r.reductions) {
      const plan::Reduction& reduction = plan.reduction(c.reduction);
      f.comment(plan[reduction.value].text);
      ops.store(
          reduction.dtype, u[c.operand],
          u.element(Uniform::Owner::partial, c.reduction, index, size_of(reduction.dtype), "slot"));
    }
    f.end_comment();
  });
  f.line("ret void");
  return f.take(fmt::format("void @sf_rollup_{}_{}(ptr %ctx) #0", phase, rollup));
}

}  // namespace stepfuse::llvm
