// CUDA text of step, group and tensor values. Knows the schedule.
#include <fmt/format.h>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

// Which element of a per-step, per-group or per-tensor array belongs to the chunk at hand.
std::string_view place(Domain d) {
  switch (d) {
    case Domain::step:
      return "0";
    case Domain::group:
      return "group";
    default:
      return "tensor_index";
  }
}

// Bound types are held as f32 until they are stored.
DType held(DType t) { return t == DType::bound ? DType::f32 : t; }

size_t count_args(const Program& p, Domain d) {
  return static_cast<size_t>(std::count_if(p.args.begin(), p.args.end(),
                                           [&](const Arg& a) { return a.type.domain == d; }));
}

std::string argument(const Program& p, const Inst& inst) {
  Domain domain = inst.type.domain;
  size_t index = 0;  // among the arguments of its domain
  for (int32_t i = 0; i < inst.slot; ++i) {
    index += p.args[static_cast<size_t>(i)].type.domain == domain ? 1 : 0;
  }
  std::string_view type = c_type(inst.type.dtype);
  return fmt::format("arg<{}>({}_args[{}])", type, domain == Domain::step ? "step" : "group",
                     index);
}

std::string uniform_expression(const Emission& e, ValueId v) {
  const Inst& inst = e.p[v];
  std::string_view type = c_type(held(inst.type.dtype));
  switch (inst.op) {
    case Op::arg:
      return argument(e.p, inst);
    case Op::read:
      return fmt::format("global<{}>(ctx.step.states, {})[{}]", type, inst.slot,
                         place(inst.type.domain));
    case Op::present:
      return "(tensor.flags & abi::kPresent) != 0";
    case Op::tensor_index:
      return "i32(tensor_index)";
    default:
      break;
  }
  if (is_reduction(inst.op)) {
    return fmt::format("global<{}>(ctx.step.results, {})[{}]", type, e.s.reduction_index(v),
                       place(inst.type.domain));
  }
  check_internal(is_elementwise(inst.op), "not a uniform value");
  std::string operands[3];
  for (int i = 0; i < inst.arity(); ++i) {
    operands[i] = e.names[inst.operands[static_cast<size_t>(i)]];
  }
  ValueId decides = inst.operands[inst.op == Op::select ? 1 : 0];
  return expression(inst.op, held(e.p[decides].type.dtype), held(inst.type.dtype), operands[0],
                    operands[1], operands[2]);
}

// Shared structs have no byte that nobody writes: the compiler joins loads across such gaps.
size_t field_size(const Emission& e, ValueId v) {
  return std::max<size_t>(4, size_of(held(e.p[v].type.dtype)));
}
std::string_view field_type(const Emission& e, ValueId v) {
  DType t = e.p[v].type.dtype;
  return t == DType::boolean ? "u32" : c_type(t);
}
bool needs_padding(const Emission& e, const std::vector<ValueId>& values) {
  auto wide =
      std::count_if(values.begin(), values.end(), [&](ValueId v) { return field_size(e, v) == 8; });
  auto narrow = static_cast<std::ptrdiff_t>(values.size()) - wide;
  return wide != 0 && narrow % 2 != 0;
}

}  // namespace

std::vector<ValueId> without_constants(const Emission& e, const ValueSet& values) {
  std::vector<ValueId> out;
  std::copy_if(values.begin(), values.end(), std::back_inserter(out),
               [&](ValueId v) { return !e.is_constant(v); });
  return out;
}

SharedValues shared_values(const Emission& e, const UniformCode& code, const ValueSet& used) {
  SharedValues shared;
  ValueSet step(code.step.begin(), code.step.end());
  for (ValueId v : used) (step.contains(v) ? shared.step : shared.chunk).insert(v);
  for (const auto* list : {&code.group, &code.tensor}) {
    for (ValueId v : *list) {
      if (is_reduction(e.p[v].op)) continue;
      for_each_operand(e.p[v], [&](ValueId o) {
        if (step.contains(o)) shared.step.insert(o);
      });
    }
  }
  return shared;
}

void emit_uniform_lines(Emission& e, const std::vector<ValueId>& values) {
  auto has_args = [&](Domain d) {
    return std::any_of(values.begin(), values.end(),
                       [&](ValueId v) { return e.p[v].op == Op::arg && e.p[v].type.domain == d; });
  };
  if (has_args(Domain::step)) e.out.line("const u64* const step_args = step_args_of(ctx);");
  if (has_args(Domain::group)) {
    e.out.line(fmt::format("const u64* const group_args = group_args_of(ctx, {}, group * {});",
                           count_args(e.p, Domain::step), count_args(e.p, Domain::group)));
  }
  for (ValueId v : values) {
    if (e.is_constant(v)) continue;
    e.out.line(fmt::format("const {} {} = {};", c_type(e.p[v].type.dtype), e.names[v],
                           uniform_expression(e, v)),
               e.comment(v));
  }
}

void emit_struct(Emission& e, const std::string& name, const std::vector<ValueId>& values) {
  e.out.open("struct " + name);
  for (size_t width : {8, 4}) {
    for (ValueId v : values) {
      if (field_size(e, v) != width) continue;
      e.out.line(fmt::format("{} {};", field_type(e, v), e.names[v]));
    }
  }
  if (needs_padding(e, values)) e.out.line("u32 padding;");
  e.out.close("};");
}

void emit_copies_from(Emission& e, const std::string& from, const std::vector<ValueId>& values) {
  for (ValueId v : values) {
    bool is_bool = e.p[v].type.dtype == DType::boolean;
    e.out.line(fmt::format("const {0} {1} = {2}.{1}{3};", c_type(e.p[v].type.dtype), e.names[v],
                           from, is_bool ? " != 0" : ""));
  }
}

void emit_copies_to(Emission& e, const std::string& to, const std::vector<ValueId>& values) {
  for (ValueId v : values) e.out.line(fmt::format("{}.{} = {};", to, e.names[v], e.names[v]));
  if (needs_padding(e, values)) e.out.line(to + ".padding = 0;");
}

}  // namespace stepfuse::cuda
