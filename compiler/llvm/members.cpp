// Loops over members of the coarser granularities: the state writes and the rollups. Knows the plan, the
// kernel ABI, and the expression table.
#include "compiler/llvm/members.hpp"

#include <cstddef>

#include <stepfuse/error.hpp>

namespace stepfuse::llvm {
namespace {

// Emits a loop over [first, end); `body` gets the index and the label at which to continue.
void loop(Function& f, std::string_view hint, const std::string& first, const std::string& end_of,
          const std::function<void(const std::string&, const std::string&)>& body) {
  std::string before = f.label(fmt::format("{}.before", hint));
  std::string test = f.label(fmt::format("{}.test", hint));
  std::string work = f.label(fmt::format("{}.work", hint));
  std::string next = f.label(fmt::format("{}.next", hint));
  std::string end = f.label(fmt::format("{}.end", hint));
  f.jump(before);
  f.block(before);
  f.jump(test);
  f.block(test);
  std::string i_next = f.name("next");
  std::string i = f.set(hint, "phi i64 [ {}, %{} ], [ {}, %{} ]", first, before, i_next, next);
  std::string more = f.set("more", "icmp ult i64 {}, {}", i, end_of);
  f.branch(more, work, end);
  f.block(work);
  body(i, next);
  f.jump(next);
  f.block(next);
  f.line("{} = add i64 {}, 1", i_next, i);
  f.jump(test);
  f.block(end);
}

std::string field(Function& f, const std::string& record, size_t offset, std::string_view hint) {
  std::string at = f.set(hint, "getelementptr i8, ptr {}, i64 {}", record, offset);
  return f.set(hint, "load i32, ptr {}", at);
}

// Makes tensor `t` and its group current: their values are evaluated next.
void enter_tensor(Function& f, Uniform& u, const std::string& t, Absent absent,
                  const std::string& next) {
  std::string record = f.address("tensor.at", u.tensors, t, sizeof(abi::Tensor));
  std::string flags = field(f, record, offsetof(abi::Tensor, flags), "flags");
  std::string here =
      f.set("present", "and i32 {}, {}", flags, static_cast<unsigned>(abi::kPresent));
  std::string present = f.set("present", "icmp ne i32 {}, 0", here);
  if (absent == Absent::skip) {
    std::string work = f.label("present");
    f.branch(present, work, next);
    f.block(work);
  }
  std::string group = field(f, record, offsetof(abi::Tensor, group), "group");
  u.set_group(f.set("group", "zext i32 {} to i64", group));
  u.set_tensor(t, absent == Absent::skip ? "true" : present);
}

}  // namespace

void for_each_member(Function& f, Uniform& u, Granularity g, const plan::Uniform& code,
                     Absent absent, const std::function<void(const std::string&)>& body) {
  if (g == per::step) return body("0");
  if (g == per::group) {
    return loop(f, "group", "0", u.group_count, [&](const std::string& m, const std::string&) {
      u.set_group(m);
      u.evaluate(code.of(g));
      body(m);
    });
  }
  loop(f, "tensor", "0", u.tensor_count, [&](const std::string& t, const std::string& next) {
    enter_tensor(f, u, t, absent, next);
    u.evaluate(code.of(per::group));
    u.evaluate(code.of(per::tensor));
    if (!splits_tensor(g)) return body(t);
    auto [first, end] = u.members_of(g, t);
    loop(f, info(g).name, first, end, [&](const std::string& m, const std::string&) {
      u.set_member(g, m);
      u.evaluate(code.of(g));
      body(m);
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
      auto slot = static_cast<size_t>(c.reduction);
      ops.store(reduction.dtype, u[c.operand],
                u.element(u.slots, slot, index, size_of(reduction.dtype), "slot"));
    }
    f.end_comment();
  });
  f.line("ret void");
  return f.take(fmt::format("void @sf_rollup_{}_{}(ptr %ctx) #0", phase, rollup));
}

}  // namespace stepfuse::llvm
