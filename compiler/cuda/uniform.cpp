// CUDA text of per-step, per-group and per-tensor values. Knows the plan.
#include <algorithm>

#include <fmt/format.h>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

// Returns the index of the current chunk's value in a per-step, per-group or per-tensor array.
std::string_view place(Granularity g) {
  return g == per::step ? "0" : g == per::tensor ? "tensor_index" : info(g).name;
}

// Returns the expression for the word of an argument.
std::string argument(const ArgLayout& args, Granularity granularity, int32_t word) {
  if (granularity == per::step) return fmt::format("step_arg(ctx, {})", word);
  std::string row = granularity == per::group
                        ? fmt::format("group * {}", args.group_words)
                        : fmt::format("ctx.step.group_count * {} + tensor_index * {}",
                                      args.group_words, args.tensor_words);
  return fmt::format("member_arg(ctx, {}, {} + {})", args.step_words, row, word);
}

std::string uniform_expression(const Emission& e, const plan::Inst& inst) {
  std::string_view type = c_type(inst.out);
  Granularity at = e.plan[inst.value].at;
  if (inst.op == Op::arg) {
    return fmt::format("arg<{}>({})", type, argument(e.plan.args, at, inst.index));
  }
  auto owner = plan::owner_of(inst);
  if (!owner) return expression(e.plan, inst);
  return fmt::format("global<{}>(ctx.step.{}, {})[{}]", type, plan::context_array(*owner),
                     inst.index, place(at));
}

// Shared structs have no unwritten bytes, because the compiler joins loads across such gaps.
size_t field_size(const Emission& e, Id v) { return std::max<size_t>(4, size_of(e.plan[v].dtype)); }
std::string_view field_type(const Emission& e, Id v) {
  DType t = e.plan[v].dtype;
  return t == DType::boolean ? "u32" : c_type(t);
}
bool needs_padding(const Emission& e, const ValueSet& values) {
  auto wide =
      std::count_if(values.begin(), values.end(), [&](Id v) { return field_size(e, v) == 8; });
  auto narrow = static_cast<std::ptrdiff_t>(values.size()) - wide;
  return wide != 0 && narrow % 2 != 0;
}

}  // namespace

SharedValues shared_values(const plan::Uniform& code, const ValueSet& used) {
  SharedValues shared;
  ValueSet step;
  for (const plan::Inst& inst : code.of(per::step)) step.insert(inst.value);
  for (Id v : used) (step.contains(v) ? shared.step : shared.chunk).insert(v);
  for (const Level<plan::Inst>& level : code) {
    if (level.at == per::step) continue;
    for_each_operand(level.code, [&](Id o) {
      if (step.contains(o)) shared.step.insert(o);
    });
  }
  return shared;
}

void emit_uniform_lines(Emission& e, const std::vector<plan::Inst>& code) {
  for (const plan::Inst& inst : code) {
    e.out.line(fmt::format("const {} {} = {};", c_type(inst.out), e.name(inst.value),
                           uniform_expression(e, inst)),
               e.comment(inst.value));
  }
}

void emit_tensor_lines(Emission& e, const plan::Uniform& code) {
  if (code.has(per::group)) e.out.line("const u32 group = tensor.group;");
  emit_uniform_lines(e, code.of(per::group));
  emit_uniform_lines(e, code.of(per::tensor));
}

void emit_struct(Emission& e, const std::string& name, const ValueSet& values,
                 std::string_view others) {
  e.out.open("struct " + name);
  for (size_t width : {8, 4}) {
    for (Id v : values) {
      if (field_size(e, v) != width) continue;
      e.out.line(fmt::format("{} {};", field_type(e, v), e.name(v)));
    }
  }
  if (!others.empty()) e.out.line(std::string(others));
  if (needs_padding(e, values)) e.out.line("u32 padding;");
  e.out.close("};");
}

void emit_copies_from(Emission& e, const std::string& from, const ValueSet& values) {
  for (Id v : values) {
    DType t = e.plan[v].dtype;
    e.out.line(fmt::format("const {0} {1} = {2}.{1}{3};", c_type(t), e.name(v), from,
                           t == DType::boolean ? " != 0" : ""));
  }
}

void emit_copies_to(Emission& e, const std::string& to, const ValueSet& values) {
  for (Id v : values) e.out.line(fmt::format("{0}.{1} = {1};", to, e.name(v)));
  if (needs_padding(e, values)) e.out.line(to + ".padding = 0;");
}

}  // namespace stepfuse::cuda
