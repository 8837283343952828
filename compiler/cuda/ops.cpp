// Writes ops as C++ expressions over the prelude. Knows ir and fmt.
#include "compiler/cuda/ops.hpp"

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "compiler/cuda/text.hpp"
#include "compiler/spelling.hpp"

namespace stepfuse::cuda {
namespace {

constexpr Spelling kSpellings[] = {
    {Op::present, "(tensor.flags & abi::kPresent) != 0"},
    {Op::tensor_index, "i32(tensor_index)"},
    {Op::element_count, "i64(tensor.full_size)"},
    {Op::column_count, "i64(tensor.columns)"},
    {Op::neg, "-{a}", "sub({t}(0), {a})"},
    {Op::abs, "absolute({a})", "{a} < 0 ? sub({t}(0), {a}) : {a}"},
    {Op::sqrt, "__{p}sqrt_rn({a})"},
    {Op::rint, "nearest({a})"},
    {Op::floor, "lower({a})"},
    {Op::rcp, "1.0{f} / {a}"},
    {Op::isfinite, "is_finite({a})"},
    {Op::add, "{a} + {b}", "add({a}, {b})"},
    {Op::sub, "{a} - {b}", "sub({a}, {b})"},
    {Op::mul, "{a} * {b}", "mul({a}, {b})"},
    {Op::div, "{a} / {b}"},
    {Op::min, "minimum({a}, {b})"},
    {Op::max, "maximum({a}, {b})"},
    {Op::powi, "powi({a}, i64({b}))"},
    {Op::fma, "__fma{f}_rn({a}, {b}, {c})"},
    {Op::lt, "{a} < {b}"},
    {Op::le, "{a} <= {b}"},
    {Op::gt, "{a} > {b}"},
    {Op::eq, "{a} == {b}"},
    {Op::ne, "{a} != {b}"},
    {Op::shl, "shifted_left({a}, {b})"},
    {Op::shr, "shifted_right({a}, {b})"},
    {Op::logical_not, "!{a}"},
    {Op::bit_and, "{a} & {b}"},
    {Op::bit_or, "{a} | {b}"},
    {Op::bit_xor, "{a} ^ {b}"},
    {Op::select, "{a} ? {b} : {c}"},
};

std::string cast_expression(DType from, DType to, const std::string& a) {
  if (from == to) return a;
  if (is_low_precision(from)) {
    std::string wide = fmt::format("f32_from({})", a);
    return to == DType::f32 ? wide : cast_expression(DType::f32, to, wide);
  }
  if (is_low_precision(to)) return fmt::format("{}_from({})", name(to), a);
  if (is_float(from) && is_integer(to)) return fmt::format("{}_from({})", name(to), a);
  return fmt::format("{}({})", c_type(to), a);
}

}  // namespace

bool has_instructions(DType t) {
  return !is_low_precision(t) || t == DType::f16 || t == DType::bf16;
}

bool is_native(Op op, DType in, DType out) {
  if (op == Op::cast) return has_instructions(in) && has_instructions(out);
  return op == Op::gt || op == Op::ne || op == Op::rint || op == Op::floor;
}

std::string expression(Op op, DType in, DType out, const std::string& a, const std::string& b,
                       const std::string& c, const plan::Expansion* within) {
  const plan::Expansion* expansion = plan::expansion_of(op, in, out, within, is_native);
  if (expansion != nullptr) return plan::call_text(*expansion, a, b, c);
  if (op == Op::cast) return cast_expression(in, out, a);
  if (op == Op::bitcast) return fmt::format("bits_as<{}>({})", c_type(out), a);
  return spell(kSpellings, op, in, c_type(in), a, b, c);
}

std::string expression(const KernelPlan& plan, const plan::Inst& inst) {
  std::string operands[3];
  for (size_t i = 0; i < 3 && inst.operands[i] != plan::kNone; ++i) {
    operands[i] = plan[inst.operands[i]].name;
  }
  if (!reads_table(inst.op)) {
    return expression(inst.op, inst.in, inst.out, operands[0], operands[1], operands[2]);
  }
  return table_expression(plan.table(inst), inst.op, operands[0]);
}

std::string_view combiner(Op reduction) {
  switch (reduction) {
    case Op::reduce_add:
      return "Add";
    case Op::reduce_max:
      return "Max";
    case Op::reduce_min:
      return "Min";
    default:
      internal_error("not a reduction with an order");
  }
}

std::string function(const plan::Expansion& e) {
  auto type = [](DType t) { return std::string(c_type(t)); };
  return plan::function_text(e, {"SF_DEVICE", type, c_literal, expression});
}

}  // namespace stepfuse::cuda
