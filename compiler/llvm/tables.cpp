// Code tables as LLVM IR: looked up and searched in registers if the machine can, otherwise in constant
// arrays. Knows the plan and the text vocabulary.
#include <algorithm>
#include <array>
#include <bit>

#include "compiler/llvm/ops.hpp"

namespace stepfuse::llvm {
namespace {

// If lanes cannot be permuted, this many levels of a search select among constants. The other levels are
// loaded.
constexpr size_t kChosenLevels = 4;

// Returns the bounds without the entries before and behind them.
std::vector<float> sorted_bounds(const plan::Table& table) {
  std::vector<float> bounds(table.bounds.begin() + 1, table.bounds.end());
  std::sort(bounds.begin(), bounds.end());
  bounds.resize(table.values.size() - 1);
  return bounds;
}

}  // namespace

std::string Ops::compute(const KernelPlan& plan, const plan::Inst& inst,
                         std::span<const std::string> args, std::string_view hint) {
  if (inst.op == Op::lookup) return lookup(plan.table(inst), args[0], hint);
  if (inst.op == Op::nearest) return nearest(plan.table(inst), args[0], hint);
  return apply(inst.op, inst.in, inst.out, args, hint);
}

// Loads an array element per lane, `shift` elements on. Two indices at a time move to the
// registers for addresses: on processors with such short vectors, a gather takes longer than
// that.
std::string Ops::each(DType t, const std::string& array, int64_t shift, const std::string& index,
                      std::string_view hint) {
  std::string element = type_text(t, 1);
  auto at = [&](const std::string& integer, const std::string& i) {
    std::string place =
        f_.set(hint, "getelementptr {}, ptr @{}, {} {}", element, array, integer, i);
    if (shift != 0) place = f_.set(hint, "getelementptr {}, ptr {}, i64 {}", element, place, shift);
    return f_.set(hint, "load {}, ptr {}", element, place);
  };
  if (lanes_ == 1) return at("i32", index);
  std::string words = integer_type_text(64, lanes_ / 2);
  std::string pairs = f_.set(hint, "bitcast {} {} to {}", type(DType::i32), index, words);
  std::string all = "poison";
  for (int k = 0; k < lanes_; ++k) {
    std::string pair = f_.set(hint, "extractelement {} {}, i32 {}", words, pairs, k / 2);
    std::string number = k % 2 == 0 ? f_.set(hint, "and i64 {}, 4294967295", pair)
                                    : f_.set(hint, "lshr i64 {}, 32", pair);
    all = f_.set(hint, "insertelement {} {}, {} {}, i32 {}", type(t), all, element,
                 at("i64", number), k);
  }
  return all;
}

// Loads from a constant array, which the module then contains.
std::string Ops::gather(const std::string& array, const std::vector<float>& values,
                        const std::string& index, std::string_view hint) {
  std::string constant =
      m_.constant(array, fmt::format("[{} x float] [{}]", values.size(), list_text(values)));
  return each(DType::f32, constant, 0, index, hint);
}

// Loading one by one takes about as long as permuting four vectors of eight lanes.
bool Ops::can_permute(size_t count) const {
  return m_.has_permutes && lanes_ == m_.lanes && (lanes_ == 16 || count <= 32);
}

// Returns, per lane, the value that the low bits of the lane's index select.
std::string Ops::permuted(std::span<const float> values, const std::string& index,
                          std::string_view hint) {
  auto lanes = static_cast<size_t>(lanes_);
  std::string floats = type(DType::f32);
  std::string integers = type(DType::i32);
  std::vector<std::string> vectors;
  for (size_t first = 0; first < values.size(); first += lanes) {
    std::vector<float> some(values.begin() + static_cast<std::ptrdiff_t>(first), values.end());
    some.resize(lanes);
    vectors.push_back(fmt::format("{} <{}>", floats, list_text(some)));
  }
  std::vector<std::string> found;
  size_t step = lanes_ == 16 && vectors.size() > 1 ? 2 : 1;
  std::string_view callee = step == 2      ? "@llvm.x86.avx512.vpermi2var.ps.512"
                            : lanes_ == 16 ? "@llvm.x86.avx512.permvar.sf.512"
                                           : "@llvm.x86.avx2.permps";
  m_.declarations.insert(fmt::format("declare {0} {1}({0}, {2}{3})", floats, callee, integers,
                                     step == 2 ? ", " + floats : ""));
  for (size_t v = 0; v < vectors.size(); v += step) {
    found.push_back(f_.set(hint, "call {} {}({}, {} {}{})", floats, callee, vectors[v], integers,
                           index, step == 2 ? ", " + vectors[v + 1] : ""));
  }
  for (size_t bit = step * lanes; found.size() > 1; bit *= 2) {
    std::string mask = constant(DType::i32, Bits::of(static_cast<int32_t>(bit)));
    std::string part = f_.set(hint, "and {} {}, {}", integers, index, mask);
    std::string is_upper =
        f_.set(hint, "icmp ne {} {}, {}", integers, part, constant(DType::i32, {}));
    for (size_t k = 0; k < found.size() / 2; ++k) {
      found[k] = select(is_upper, floats, found[2 * k + 1], found[2 * k], hint);
    }
    found.resize(found.size() / 2);
  }
  return found[0];
}

// Returns the value with that index.
std::string Ops::chosen(const std::string& array, const std::vector<float>& values,
                        const std::string& index, std::string_view hint) {
  if (!can_permute(values.size())) return gather(array, values, index, hint);
  std::vector<float> filled = values;
  filled.resize(std::bit_ceil(values.size()));
  return permuted(filled, index, hint);
}

std::string Ops::lookup(const plan::Table& table, const std::string& code, std::string_view hint) {
  std::array<std::string, 2> low = {code, constant(DType::i32, {})};
  std::array<std::string, 2> high = {call("smax", DType::i32, low, hint),
                                     constant(DType::i32, Bits::of(table.last()))};
  std::string within = call("smin", DType::i32, high, hint);
  return chosen(table.name, table.values, within, hint);
}

// Returns the bound at a node of the level behind these answers.
std::string Ops::bound_of(const plan::Table& table, const std::string& node,
                          std::span<const std::string> is_above, std::string_view hint) {
  size_t level = size_t{1} << is_above.size();
  std::span<const float> tree = table.bounds;
  auto lanes = static_cast<size_t>(lanes_);
  if (can_permute(level)) {
    bool few = 2 * level <= lanes;  // with the previous levels, in one vector
    return permuted(few ? tree.first(std::min(lanes, tree.size())) : tree.subspan(level, level),
                    node, hint);
  }
  if (lanes_ == 1 || is_above.size() >= kChosenLevels) {
    return gather(table.bounds_name, table.bounds, node, hint);
  }
  auto among = [&](auto&& self, size_t known, size_t k) -> std::string {
    if (known == is_above.size()) return constant(DType::f32, Bits::of(tree[k]));
    return select(is_above[known], type(DType::f32), self(self, known + 1, 2 * k + 1),
                  self(self, known + 1, 2 * k), hint);
  };
  return among(among, 0, 1);
}

std::string Ops::searched(const plan::Table& table, const std::string& x, std::string_view hint) {
  std::string integers = type(DType::i32);
  std::string node = constant(DType::i32, Bits::of(1));
  std::vector<std::string> is_above;
  for (size_t level = 1; level < table.bounds.size(); level *= 2) {
    std::string bound = bound_of(table, node, is_above, hint);
    is_above.push_back(f_.set(hint, "fcmp ole {} {}, {}", type(DType::f32), bound, x));
    std::string twice = f_.set(hint, "add {} {}, {}", integers, node, node);
    std::string one =
        f_.set(hint, "zext {} {} to {}", type(DType::boolean), is_above.back(), integers);
    node = f_.set(hint, "add {} {}, {}", integers, twice, one);
  }
  auto nodes = static_cast<int32_t>(table.bounds.size());
  std::string code =
      f_.set(hint, "sub {} {}, {}", integers, node, constant(DType::i32, Bits::of(nodes)));
  std::array<std::string, 2> last = {code, constant(DType::i32, Bits::of(table.last()))};
  return call("smin", DType::i32, last, hint);
}

// Returns the larger or the smaller one, or the bound for a NaN. It uses x86's instructions for vectors,
// because LLVM leaves their operands alone; it would turn other code into a select.
std::string Ops::bounded(std::string_view op, const std::string& v, float bound,
                         std::string_view hint) {
  std::string floats = type(DType::f32);
  std::string other = constant(DType::f32, Bits::of(bound));
  if (!can_permute(1)) {
    std::string within =
        f_.set(hint, "fcmp {} {} {}, {}", op == "min" ? "olt" : "ogt", floats, v, other);
    return select(within, floats, v, other, hint);
  }
  std::string callee = lanes_ == 16 ? fmt::format("@llvm.x86.avx512.{}.ps.512", op)
                                    : fmt::format("@llvm.x86.avx.{}.ps.256", op);
  bool rounds = lanes_ == 16;  // an operand that keeps the rounding mode
  m_.declarations.insert(
      fmt::format("declare {0} {1}({0}, {0}{2})", floats, callee, rounds ? ", i32" : ""));
  return f_.set(hint, "call {0} {1}({0} {2}, {0} {3}{4})", floats, callee, v, other,
                rounds ? ", i32 4" : "");
}

std::string Ops::guessed(const plan::Table& table, const std::string& x, std::string_view hint) {
  const plan::CodeGuess& guess = *table.guess;
  std::string floats = type(DType::f32);
  std::string integers = type(DType::i32);
  auto real = [&](float v) { return constant(DType::f32, Bits::of(v)); };
  auto integer = [&](uint64_t v) { return integer_text(32, v, lanes_); };
  auto bits_of = [&](const std::string& v) {
    return f_.set(hint, "bitcast {} {} to {}", floats, v, integers);
  };
  std::string held = bounded("min", bounded("max", x, guess.low, hint), guess.high, hint);
  std::string size = call("fabs", DType::f32, {&held, 1}, hint);
  std::array<std::string, 3> scaled = {size, real(guess.scale), real(guess.grain)};
  std::string y = fma(DType::f32, scaled, hint);
  std::string line = f_.set(hint, "lshr {} {}, {}", integers, bits_of(y), integer(guess.shift));
  if (!can_permute(guess.slopes.size())) {
    line = f_.set(hint, "and {} {}, {}", integers, line, integer(guess.slopes.size() - 1));
  }
  std::array<std::string, 3> terms = {y, chosen(table.slopes_name, guess.slopes, line, hint),
                                      chosen(table.offsets_name, guess.offsets, line, hint)};
  std::string u = fma(DType::f32, terms, hint);
  if (guess.low < 0) {
    std::string sign = f_.set(hint, "and {} {}, {}", integers, bits_of(held), integer(1U << 31));
    std::string turned = f_.set(hint, "xor {} {}, {}", integers, bits_of(u), sign);
    u = f_.set(hint, "bitcast {} {} to {}", integers, turned, floats);
  }
  std::string whole = f_.set(hint, "fadd {} {}, {}", floats, u, real(guess.center));
  std::string code = f_.set(hint, "fptosi {} {} to {}", floats, whole, integers);
  std::string bound = chosen(table.bounds_name, table.bounds, code, hint);
  // -1 if x is below: the sign of the difference, without a mask.
  std::string above = f_.set(hint, "fsub {} {}, {}", floats, held, bound);
  std::string sign = f_.set(hint, "ashr {} {}, {}", integers, bits_of(above), integer(31));
  return f_.set(hint, "add {} {}, {}", integers, code, sign);
}

std::string Ops::in_cell(const plan::Table& table, const CodeCells& cells, const std::string& x,
                         std::string_view hint) {
  std::string integers = type(DType::i32);
  auto integer = [&](uint64_t v) { return integer_text(32, v, lanes_); };
  auto by = [&](std::string_view op, const std::string& a, const std::string& b) {
    return f_.set(hint, "{} {} {}, {}", op, integers, a, b);
  };
  std::string held = bounded("min", bounded("max", x, cells.low, hint), cells.high, hint);
  std::string bits = f_.set(hint, "bitcast {} {} to {}", type(DType::f32), held, integers);
  std::string size = bits;
  std::string sign;
  if (cells.both_signs) {
    std::array<std::string, 2> larger = {by("and", bits, integer(0x7fffffff)),
                                         integer(cells.first)};
    size = call("smax", DType::i32, larger, hint);
    sign = by("ashr", bits, integer(31));
  }
  std::string cell = by("lshr", size, integer(static_cast<uint64_t>(cells.shift)));
  if (cells.both_signs) cell = by("add", cell, by("and", sign, integer(cells.count)));
  std::string list;
  for (int32_t e : cells.entries) list += fmt::format("{}i32 {}", list.empty() ? "" : ", ", e);
  std::string array = m_.constant(table.bounds_name + ".cells",
                                  fmt::format("[{} x i32] [{}]", cells.entries.size(), list));
  auto first = static_cast<int64_t>(cells.first >> cells.shift);
  std::string entry = each(DType::i32, array, -first, cell, hint);
  std::string rest = by("and", size, integer((uint64_t{1} << cells.shift) - 1));
  std::string below =
      f_.set(hint, "icmp sgt {} {}, {}", integers, entry, by("shl", rest, integer(9)));
  std::string step = f_.set(hint, "sext {} {} to {}", type(DType::boolean), below, integers);
  if (cells.both_signs) step = by("xor", step, sign);
  return by("and", by("add", entry, step), integer(255));
}

std::string Ops::nearest(const plan::Table& table, const std::string& x, std::string_view hint) {
  if (lanes_ > 1 && !can_permute(table.values.size())) {
    if (auto cells = cells_of(sorted_bounds(table))) return in_cell(table, *cells, x, hint);
  }
  return table.guess ? guessed(table, x, hint) : searched(table, x, hint);
}

}  // namespace stepfuse::llvm
