// Ops as C++ expressions over the prelude. Knows ir and fmt.
#include "compiler/cuda/ops.hpp"

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "compiler/cuda/text.hpp"

namespace stepfuse::cuda {
namespace {

std::string integer_expression(Op op, DType t, const std::string& a, const std::string& b) {
  switch (op) {
    case Op::neg:
      return fmt::format("sub({}(0), {})", c_type(t), a);
    case Op::abs:
      return fmt::format("{1} < 0 ? sub({0}(0), {1}) : {1}", c_type(t), a);
    case Op::add:
      return fmt::format("add({}, {})", a, b);
    case Op::sub:
      return fmt::format("sub({}, {})", a, b);
    case Op::mul:
      return fmt::format("mul({}, {})", a, b);
    case Op::div:
      return fmt::format("{} / {}", a, b);
    case Op::shl:
      return fmt::format("shifted_left({}, {})", a, b);
    case Op::shr:
      return fmt::format("shifted_right({}, {})", a, b);
    default:
      return {};
  }
}

std::string real_expression(Op op, bool wide, const std::string& a, const std::string& b,
                            const std::string& c) {
  switch (op) {
    case Op::neg:
      return fmt::format("-{}", a);
    case Op::abs:
      return fmt::format("absolute({})", a);
    case Op::sqrt:
      return fmt::format("{}({})", wide ? "__dsqrt_rn" : "__fsqrt_rn", a);
    case Op::rint:
      return fmt::format("nearest({})", a);
    case Op::floor:
      return fmt::format("lower({})", a);
    case Op::rcp:
      return fmt::format("{} / {}", wide ? "1.0" : "1.0f", a);
    case Op::isfinite:
      return fmt::format("is_finite({})", a);
    case Op::add:
      return fmt::format("{} + {}", a, b);
    case Op::sub:
      return fmt::format("{} - {}", a, b);
    case Op::mul:
      return fmt::format("{} * {}", a, b);
    case Op::div:
      return fmt::format("{} / {}", a, b);
    case Op::fma:
      return fmt::format("{}({}, {}, {})", wide ? "__fma_rn" : "__fmaf_rn", a, b, c);
    default:
      return {};
  }
}

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
  switch (op) {
    case Op::cast:
      return cast_expression(in, out, a);
    case Op::min:
      return fmt::format("minimum({}, {})", a, b);
    case Op::max:
      return fmt::format("maximum({}, {})", a, b);
    case Op::powi:
      return fmt::format("powi({}, i64({}))", a, b);
    case Op::lt:
      return fmt::format("{} < {}", a, b);
    case Op::le:
      return fmt::format("{} <= {}", a, b);
    case Op::gt:
      return fmt::format("{} > {}", a, b);
    case Op::eq:
      return fmt::format("{} == {}", a, b);
    case Op::ne:
      return fmt::format("{} != {}", a, b);
    case Op::logical_not:
      return fmt::format("!{}", a);
    case Op::bit_and:
      return fmt::format("{} & {}", a, b);
    case Op::bit_or:
      return fmt::format("{} | {}", a, b);
    case Op::bit_xor:
      return fmt::format("{} ^ {}", a, b);
    case Op::bitcast:
      return fmt::format("bits_as<{}>({})", c_type(out), a);
    case Op::select:
      return fmt::format("{} ? {} : {}", a, b, c);
    default:
      break;
  }
  std::string text = is_integer(in) ? integer_expression(op, in, a, b)
                                    : real_expression(op, in == DType::f64, a, b, c);
  check_internal(!text.empty(), fmt::format("no CUDA expression for op {}", info(op).name));
  return text;
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
