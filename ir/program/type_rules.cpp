// Type rules of elementwise ops and reductions. Knows ir and fmt.
#include "ir/program/type_rules.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/printer.hpp>

namespace stepfuse {

std::string type_text(const Program& p, Type t) {
  bool known = t.dtype != DType::bound ||
               (t.buffer >= 0 && static_cast<size_t>(t.buffer) < p.buffers.size());
  return known ? print_type(p, t) : std::string("[@?]");
}

bool has_known_enums(const Program& p) {
  auto type_ok = [](Type t) { return t.dtype <= DType::bound && t.at.scope <= Scope::tensor; };
  auto buffer_ok = [](const Buffer& b) {
    return b.access <= Access::inout && b.init <= Buffer::Init::copy;
  };
  auto inst_ok = [&](const Inst& i) {
    return static_cast<size_t>(i.op) < all_ops().size() && type_ok(i.type);
  };
  return std::ranges::all_of(p.buffers, buffer_ok) &&
         std::ranges::all_of(p.states, type_ok, &State::type) &&
         std::ranges::all_of(p.args, type_ok, &Arg::type) && std::ranges::all_of(p.insts, inst_ok);
}

namespace {

bool is_bits(DType t) { return t == DType::boolean || is_integer(t); }
bool is_bool(DType t) { return t == DType::boolean; }

class TypeRules {
 public:
  TypeRules(const Program& p, const Report& report) : p_(p), report_(report) {}

  void check(const Inst& inst) {
    switch (info(inst.op).rule) {
      case TypeRule::number:
        return check_same(inst, is_number, "i32 i64 f32 f64");
      case TypeRule::real:
        return check_same(inst, is_real, "f32 f64");
      case TypeRule::bits:
        return check_same(inst, is_bits, "bool i32 i64");
      case TypeRule::integer:
        return check_same(inst, is_integer, "i32 i64");
      case TypeRule::cast:
        return check_cast(inst);
      case TypeRule::cast_sr:
        return check_cast_sr(inst);
      case TypeRule::bitcast:
        return check_bitcast(inst);
      case TypeRule::random:
        return check_random(inst);
      case TypeRule::lookup:
        return check_table_op(inst, DType::i32, DType::f32);
      case TypeRule::nearest:
        return check_table_op(inst, DType::f32, DType::i32);
      case TypeRule::classify:
        if (!is_real(operand(inst, 0).dtype)) {
          report(0, 2, "isfinite takes f32 f64, not {}; cast to f32 first", text(operand(inst, 0)));
        }
        return expect_result(inst, DType::boolean);
      case TypeRule::logical:
        return check_same(inst, is_bool, "bool");
      case TypeRule::compare:
        return check_compare(inst);
      case TypeRule::powi:
        return check_powi(inst);
      case TypeRule::pow:
        if (is_of_elements(inst.type.at)) {
          report(kType, 3, "{} takes no per-{} values; cast a coarser one", info(inst.op).name,
                 info(inst.type.at).name);
        }
        return check_same(inst, is_real, "f32 f64");
      case TypeRule::select:
        return check_select(inst);
      case TypeRule::reduce:
        return check_same(inst, is_number, "i32 i64 f32 f64");
      case TypeRule::reduce_any:
        return check_same(inst, is_bool, "bool");
      default:
        return;
    }
  }

 private:
  template <class... Args>
  void report(int part, int rule, fmt::format_string<Args...> format, Args&&... args) {
    report_(part, rule, fmt::format(format, std::forward<Args>(args)...));
  }
  std::string text(Type t) const { return type_text(p_, t); }
  const Type& operand(const Inst& inst, int i) const {
    return p_[inst.operands[static_cast<size_t>(i)]].type;
  }

  // Checks that all operands of one type and the result share their dtype.
  void check_same(const Inst& inst, bool (*allowed)(DType), std::string_view types) {
    DType t = operand(inst, 0).dtype;
    if (!allowed(t)) {
      std::string_view hint = is_low_precision(t) || t == DType::bound ? "; cast to f32 first"
                              : is_narrow_integer(t)                   ? "; cast to i32 first"
                                                                       : "";
      report(0, 2, "{} takes {}, not {}{}", info(inst.op).name, types, text(operand(inst, 0)),
             hint);
      return;
    }
    for (int i = 1; i < inst.arity(); ++i) {
      if (operand(inst, i).dtype != t) {
        report(i, 2, "{} takes operands of one dtype, not {} and {}; cast one", info(inst.op).name,
               text(operand(inst, 0)), text(operand(inst, i)));
        return;
      }
    }
    if (inst.type.dtype != t) expect_result(inst, t);
  }

  void expect_result(const Inst& inst, DType t) {
    if (inst.type.dtype != t) {
      report(kType, 2, "the result of {} has dtype {}, not {}", info(inst.op).name, name(t),
             text(inst.type));
    }
  }

  void check_cast(const Inst& inst) {
    Type from = operand(inst, 0);
    Type to = inst.type;
    auto narrow = [](Type t) { return is_low_precision(t.dtype) || t.dtype == DType::bound; };
    if (narrow(from) || narrow(to)) {
      if ((narrow(from) && to.dtype != DType::f32) || (narrow(to) && from.dtype != DType::f32)) {
        report(kType, 2, "{} and bound types are cast from and to f32 only, not {} to {}",
               names(kLowPrecision, ", "), text(from), text(to));
      }
      if (from.dtype == DType::bound && !is_tile(from.at)) {
        report(0, 5,
               "{} is not per element, so it has several storage types; it can only be stored",
               text(from));
      }
      check_bound_result(to);
      return;
    }
    if ((is_narrow_integer(from.dtype) && to.dtype != DType::i32) ||
        (is_narrow_integer(to.dtype) && from.dtype != DType::i32)) {
      report(kType, 2, "{} are cast from and to i32 only, not {} to {}",
             names(kNarrowIntegers, ", "), text(from), text(to));
      return;
    }
    if (to.dtype == DType::boolean && from.dtype != DType::boolean) {
      report(kType, 2, "there is no cast to bool; compare instead");
    }
  }

  void check_bound_result(Type to) {
    if (to.dtype != DType::bound) return;
    const Buffer& b = p_.buffers[static_cast<size_t>(to.buffer)];
    if (b.dtypes.size() == 1) report(kType, 5, "@{} has one storage type: name it", b.name);
  }

  void check_cast_sr(const Inst& inst) {
    Type to = inst.type;
    bool is_storage = to.dtype == DType::bound || kSignedFloats.contains(to.dtype);
    if (operand(inst, 0).dtype != DType::f32 || operand(inst, 1).dtype != DType::i32 ||
        !is_storage) {
      report(kWhole, 2, "cast_sr takes (f32, i32) to one of {}, not ({}, {}) to {}",
             names(kSignedFloats, ", "), text(operand(inst, 0)), text(operand(inst, 1)), text(to));
    }
    check_bound_result(to);
    if (to.dtype == DType::bound && !is_tile(to.at)) {
      report(kType, 5, "cast_sr to a bound type must be per element, not {}", text(to));
    }
  }

  void check_random(const Inst& inst) {
    Type a = operand(inst, 0);
    Type b = operand(inst, 1);
    Type c = operand(inst, 2);
    if (a.dtype != DType::i64 || b.dtype != DType::i64 || c.dtype != DType::i32) {
      report(kWhole, 2, "random takes (i64, i64, i32): seed, count and stream; not ({}, {}, {})",
             text(a), text(b), text(c));
    }
    if (is_tile(a.at) || is_tile(b.at) || is_tile(c.at)) {
      report(kWhole, 3,
             "random takes no per-element values: it adds the element's position by itself");
    }
    expect_result(inst, DType::i32);
  }

  void check_table_op(const Inst& inst, DType from, DType to) {
    if (operand(inst, 0).dtype != from) {
      report(0, 2, "{} takes {}, not {}", info(inst.op).name, name(from), text(operand(inst, 0)));
    }
    expect_result(inst, to);
  }

  void check_bitcast(const Inst& inst) {
    DType a = operand(inst, 0).dtype;
    DType b = inst.type.dtype;
    auto pairs = [](DType real, DType integer) {
      return is_float(real) && integer == (real == DType::f64 ? DType::i64 : DType::i32);
    };
    if (!pairs(a, b) && !pairs(b, a)) {
      report(kType, 2, "bitcast goes between f64 and i64, or other floats and i32, not {} to {}",
             text(operand(inst, 0)), text(inst.type));
    }
  }

  void check_compare(const Inst& inst) {
    Type a = operand(inst, 0);
    Type b = operand(inst, 1);
    if (!is_number(a.dtype) || a.dtype != b.dtype) {
      report(is_number(a.dtype) ? 1 : 0, 2, "{} compares two i32, i64, f32 or f64, not {} and {}",
             info(inst.op).name, text(a), text(b));
    }
    expect_result(inst, DType::boolean);
  }

  void check_powi(const Inst& inst) {
    if (!is_real(operand(inst, 0).dtype) || !is_integer(operand(inst, 1).dtype)) {
      report(is_real(operand(inst, 0).dtype) ? 1 : 0, 2,
             "powi takes (f32 or f64, i32 or i64), not ({}, {})", text(operand(inst, 0)),
             text(operand(inst, 1)));
    }
    if (is_of_elements(inst.type.at)) {
      report(kType, 3, "powi takes no per-{} values; multiply", info(inst.type.at).name);
    }
    expect_result(inst, operand(inst, 0).dtype);
  }

  void check_select(const Inst& inst) {
    Type a = operand(inst, 1);
    Type b = operand(inst, 2);
    bool same = a.dtype == b.dtype && a.buffer == b.buffer && a.dtype != DType::bound &&
                !is_storage_only(a.dtype);
    bool condition = operand(inst, 0).dtype == DType::boolean;
    if (!condition || !same) {
      report(condition ? 2 : 0, 2,
             "select takes (bool, T, T) with T one of bool i32 i64 f32 f64, not ({}, {}, {})",
             text(operand(inst, 0)), text(a), text(b));
    }
    expect_result(inst, a.dtype);
  }

  const Program& p_;
  const Report& report_;
};

}  // namespace

void check_types(const Program& program, const Inst& inst, const Report& report) {
  TypeRules(program, report).check(inst);
}

}  // namespace stepfuse
