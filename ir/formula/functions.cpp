// The built-in functions of formulas. Knows ir and fmt.
#include <algorithm>

#include <fmt/format.h>

#include "ir/formula/elementary.hpp"
#include "ir/formula/values.hpp"
#include "ir/recipes/numerics.hpp"
#include "ir/text/words.hpp"

namespace stepfuse::formula {
namespace {

using Operands = std::span<const Operand>;

Operand to_f32(Values& v, SourceLoc, Operands o) { return {o[0].loc, v.to(o[0], DType::f32), {}}; }

Operand to_f64(Values& v, SourceLoc loc, Operands o) {
  if (is_of_elements(o[0].granularity())) {
    v.fail(loc, fmt::format("per-{} values have no f64; they are computed in f32",
                            info(o[0].granularity()).name));
  }
  return {o[0].loc, v.to(o[0], DType::f64), {}};
}

Operand finite(Values& v, SourceLoc loc, Operands o) {
  return v.made(loc, isfinite(v.to(o[0], Values::real(v.common(o)))));
}

Operand select(Values& v, SourceLoc loc, Operands o) { return v.choose(loc, o[0], o[1], o[2]); }

// Fails if the share of an average is a per-element value.
void check_share(Values& v, const Operand& share) {
  if (is_of_elements(share.granularity()))
    v.fail(share.loc, "the share must be one number for all elements");
}

// Rounds as torch.lerp does.
Operand lerp(Values& v, SourceLoc, Operands o) {
  check_share(v, o[2]);
  Value share = v.to(o[2], DType::f64);
  return {o[0].loc, recipes::lerp(v.c, v.to(o[0], DType::f32), v.to(o[1], DType::f32), share), {}};
}

// Rounds as torch's mul_ and addcmul_ do.
Operand ema_square(Values& v, SourceLoc, Operands o) {
  check_share(v, o[2]);
  Value decay = v.to(o[2], DType::f64);
  Value average = v.to(o[0], DType::f32);
  return {o[0].loc, recipes::average_square(v.c, average, v.to(o[1], DType::f32), decay), {}};
}

template <Operand (*function)(Values&, SourceLoc, const Operand&)>
Operand of_one(Values& v, SourceLoc loc, Operands o) {
  return function(v, loc, o[0]);
}

template <Op op, bool as_real = false>
Operand number(Values& v, SourceLoc loc, Operands o) {
  return v.number(loc, op, o, as_real);
}

Operand pow(Values& v, SourceLoc loc, Operands o) {
  if (is_of_elements(join(o[0].granularity(), o[1].granularity()))) {
    v.fail(loc, "pow takes no per-element values; write x^2, sqrt(x) or exp(y * log(x))");
  }
  return v.number(loc, Op::pow, o, true);
}

// Returns a uniform number in [0, 1) from the upper 24 of 32 random bits, which an f32 holds exactly.
Operand random(Values& v, SourceLoc loc, Operands) {
  Value bits = v.made(loc, v.c.random_bits()).value;
  Value upper = v.made(loc, v.c.b.apply(Op::shr, {bits, v.c.i32(8)})).value;
  Value scale = v.c.f32(0x1p-24);
  return v.made(loc, v.made(loc, v.c.b.cast(upper, DType::f32)).value * scale);
}

struct Function {
  std::string_view name;
  size_t arity;
  Operand (*apply)(Values&, SourceLoc, Operands);
};
constexpr Function kFunctions[] = {
    {"abs", 1, number<Op::abs>},
    {"sign", 1, number<Op::sign>},
    {"floor", 1, number<Op::floor, true>},
    {"rint", 1, number<Op::rint, true>},
    {"exp2", 1, number<Op::exp2, true>},
    {"log2", 1, number<Op::log2, true>},
    {"exp", 1, of_one<exp>},
    {"log", 1, of_one<log>},
    {"tanh", 1, of_one<tanh>},
    {"sqrt", 1, number<Op::sqrt, true>},
    {"rcp", 1, number<Op::rcp, true>},
    {"min", 2, number<Op::min>},
    {"max", 2, number<Op::max>},
    {"pow", 2, pow},
    {"clamp", 3, number<Op::clamp>},
    {"fma", 3, number<Op::fma, true>},
    {"isfinite", 1, finite},
    {"select", 3, select},
    {"f32", 1, to_f32},
    {"f64", 1, to_f64},
    {"lerp", 3, lerp},
    {"ema_square", 3, ema_square},
    {"random", 0, random},
};

const Function* find(std::string_view name) {
  for (const Function& f : kFunctions) {
    if (f.name == name) return &f;
  }
  return nullptr;
}

struct Fold {
  std::string_view name;
  Op op;
};
constexpr Fold kFolds[] = {{"sum", Op::reduce_add},  {"mean", Op::reduce_add},
                           {"norm", Op::reduce_add}, {"max", Op::reduce_max},
                           {"min", Op::reduce_min},  {"any", Op::reduce_any}};

// Counts the true values. Per-element values are counted in i32, because they have no i64; read as
// unsigned, it is right for tensors below 2^32 elements. All other values are counted in i64.
Operand count_true(Values& v, SourceLoc loc, const Operand& x, Granularity to) {
  bool elements = is_of_elements(x.granularity());
  Value one = v.made(loc, v.c.b.cast(x.value, elements ? DType::i32 : DType::i64)).value;
  if (!elements) return v.made(loc, v.c.b.reduce(Op::reduce_add, one, to));
  Granularity here = join(to, per::tensor);
  Value in_i32 = v.made(loc, v.c.b.reduce(Op::reduce_add, one, here)).value;
  if (to == per::column) return v.made(loc, v.c.b.cast(in_i32, DType::f32));
  Value in_i64 = v.made(loc, v.c.b.cast(in_i32, DType::i64)).value;
  Operand all = v.made(loc, in_i64 & v.c.i64(0xFFFFFFFF));
  if (to == here) return all;
  return v.made(loc, v.c.b.reduce(Op::reduce_add, all.value, to));
}

// Returns the mean in f64 (per column in f32), and 0 if there are no elements.
Operand mean(Values& v, SourceLoc loc, const Operand& x, Granularity to) {
  if (!is_tile(x.granularity())) {
    v.fail(x.loc,
           fmt::format("mean() takes a value per element, and this one is per {}: divide a sum "
                       "by the number of its terms",
                       info(x.granularity()).name));
  }
  Value sum = x.is_bool()
                  ? count_true(v, loc, x, to).value
                  : v.made(loc, v.c.b.reduce(Op::reduce_add, v.to(x, DType::f32), to)).value;
  Value known = v.count(to);
  Value count = v.made(loc, max(v.c.i64(1), known)).value;
  Operand of = v.made(loc, v.c.b.cast(count, DType::f64));
  const Operand parts[] = {
      to == per::column ? Operand{loc, sum, {}} : v.made(loc, v.c.b.cast(sum, DType::f64)), of};
  return v.number(loc, Op::div, parts);
}

}  // namespace

bool is_reduction(std::string_view name) {
  return std::ranges::find(kFolds, name, &Fold::name) != std::end(kFolds);
}

bool is_builtin(std::string_view name) {
  return find(name) != nullptr || name == "round" || name == "count" || name == "update";
}

std::vector<std::string> builtin_names() {
  std::vector<std::string> names = {"round", "count", "update"};
  for (const Function& f : kFunctions) names.emplace_back(f.name);
  for (const Fold& f : kFolds) names.emplace_back(f.name);
  return names;
}

std::optional<Operand> call_builtin(Values& v, const Expr& call, Operands operands) {
  const Function* f = find(call.text);
  if (f == nullptr) return std::nullopt;
  if (operands.size() != f->arity) {
    v.fail(call.loc, fmt::format("{} takes {}, not {}", f->name, count_words(f->arity, "value"),
                                 operands.size()));
  }
  return f->apply(v, call.loc, operands);
}

std::optional<Operand> call_reduction(Values& v, const Expr& call, const Operand& x,
                                      Granularity to) {
  const auto* fold = std::ranges::find(kFolds, call.text, &Fold::name);
  if (fold == std::end(kFolds)) return std::nullopt;
  if (broadcasts(x.granularity(), to) || !broadcasts(to, x.granularity())) {
    v.fail(x.loc, fmt::format("this already has one value per {}; there is nothing to reduce",
                              info(x.granularity()).name));
  }
  if (fold->op == Op::reduce_any) {
    return v.made(call.loc, v.c.b.reduce(fold->op, v.to_bool(x), to));
  }
  if (fold->name == "mean") return mean(v, call.loc, x, to);
  if (x.is_bool() && fold->name == "sum") return count_true(v, call.loc, x, to);
  bool is_norm = fold->name == "norm";
  DType type = v.common({&x, 1});
  Value of = v.to(x, is_norm ? Values::real(type) : type);
  if (!is_norm) return v.made(call.loc, v.c.b.reduce(fold->op, of, to));
  Value square = v.made(call.loc, of * of).value;
  return v.made(call.loc, sqrt(v.made(call.loc, v.c.b.reduce(fold->op, square, to)).value));
}

}  // namespace stepfuse::formula
