// Code tables as LLVM IR: looked up and searched, in registers where a machine can, else in constant arrays.
// Knows the plan and the text vocabulary.
#include <array>
#include <bit>

#include "compiler/llvm/ops.hpp"

namespace stepfuse::llvm {
namespace {

// Where lanes cannot be permuted, so many levels of a search choose among constants; it gathers the others.
constexpr size_t kChosenLevels = 4;

std::string list_of(std::span<const float> values) {
  std::string list;
  for (float v : values) {
    list += fmt::format("{}float {}", list.empty() ? "" : ", ", literal(DType::f32, Bits::of(v)));
  }
  return list;
}

}  // namespace

std::string Ops::compute(const KernelPlan& plan, const plan::Inst& inst,
                         std::span<const std::string> args, std::string_view hint) {
  if (inst.op == Op::lookup) return lookup(plan.table(inst), args[0], hint);
  if (inst.op == Op::nearest) return nearest(plan.table(inst), args[0], hint);
  return apply(inst.op, inst.in, inst.out, args, hint);
}

// From a constant array, which the module then has.
std::string Ops::gather(const std::string& array, const std::vector<float>& values,
                        const std::string& index, std::string_view hint) {
  m_.declarations.insert(fmt::format("@{} = private unnamed_addr constant [{} x float] [{}]", array,
                                     values.size(), list_of(values)));
  std::string at =
      f_.set(hint, "getelementptr float, ptr @{}, {} {}", array, type(DType::i32), index);
  if (lanes_ == 1) return f_.set(hint, "load float, ptr {}", at);
  std::string floats = type(DType::f32);
  std::string flags = type(DType::boolean);
  std::string callee = fmt::format("@llvm.masked.gather.v{0}f32.v{0}p0", lanes_);
  m_.declarations.insert(
      fmt::format("declare {0} {1}(<{2} x ptr>, i32, {3}, {0})", floats, callee, lanes_, flags));
  return f_.set(hint, "call {0} {1}(<{2} x ptr> {3}, i32 4, {4} {5}, {0} poison)", floats, callee,
                lanes_, at, flags, constant(DType::boolean, Bits::of(true)));
}

// A gather takes about as long as permuting four vectors of eight lanes.
bool Ops::can_permute(size_t count) const {
  return m_.has_permutes && lanes_ == m_.lanes && (lanes_ == 16 || count <= 32);
}

// Of the values, the one that each lane's number says by its low bits.
std::string Ops::permuted(std::span<const float> values, const std::string& index,
                          std::string_view hint) {
  auto lanes = static_cast<size_t>(lanes_);
  std::string floats = type(DType::f32);
  std::string integers = type(DType::i32);
  std::vector<std::string> vectors;
  for (size_t first = 0; first < values.size(); first += lanes) {
    std::vector<float> some(values.begin() + static_cast<std::ptrdiff_t>(first), values.end());
    some.resize(lanes);
    vectors.push_back(fmt::format("{} <{}>", floats, list_of(some)));
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

std::string Ops::lookup(const plan::Table& table, const std::string& code, std::string_view hint) {
  std::array<std::string, 2> low = {code, constant(DType::i32, {})};
  std::array<std::string, 2> high = {call("smax", DType::i32, low, hint),
                                     constant(DType::i32, Bits::of(table.last()))};
  std::string within = call("smin", DType::i32, high, hint);
  if (!can_permute(table.values.size())) return gather(table.name, table.values, within, hint);
  std::vector<float> values = table.values;
  values.resize(std::bit_ceil(values.size()));
  return permuted(values, within, hint);
}

// The bound at a node of the level behind these answers.
std::string Ops::bound_of(const plan::Table& table, const std::string& node,
                          std::span<const std::string> is_above, std::string_view hint) {
  size_t level = size_t{1} << is_above.size();
  std::span<const float> tree = table.tree;
  auto lanes = static_cast<size_t>(lanes_);
  if (can_permute(level)) {
    bool few = 2 * level <= lanes;  // with the levels before, in one vector
    return permuted(few ? tree.first(std::min(lanes, tree.size())) : tree.subspan(level, level),
                    node, hint);
  }
  if (lanes_ == 1 || is_above.size() >= kChosenLevels) {
    return gather(table.tree_name, table.tree, node, hint);
  }
  auto chosen = [&](auto&& self, size_t known, size_t k) -> std::string {
    if (known == is_above.size()) return constant(DType::f32, Bits::of(tree[k]));
    return select(is_above[known], type(DType::f32), self(self, known + 1, 2 * k + 1),
                  self(self, known + 1, 2 * k), hint);
  };
  return chosen(chosen, 0, 1);
}

std::string Ops::nearest(const plan::Table& table, const std::string& x, std::string_view hint) {
  std::string integers = type(DType::i32);
  std::string node = constant(DType::i32, Bits::of(1));
  std::vector<std::string> is_above;
  for (size_t level = 1; level < table.tree.size(); level *= 2) {
    std::string bound = bound_of(table, node, is_above, hint);
    is_above.push_back(f_.set(hint, "fcmp ole {} {}, {}", type(DType::f32), bound, x));
    std::string twice = f_.set(hint, "add {} {}, {}", integers, node, node);
    std::string one =
        f_.set(hint, "zext {} {} to {}", type(DType::boolean), is_above.back(), integers);
    node = f_.set(hint, "add {} {}, {}", integers, twice, one);
  }
  auto nodes = static_cast<int32_t>(table.tree.size());
  std::string code =
      f_.set(hint, "sub {} {}, {}", integers, node, constant(DType::i32, Bits::of(nodes)));
  std::array<std::string, 2> last = {code, constant(DType::i32, Bits::of(table.last()))};
  return call("smin", DType::i32, last, hint);
}

}  // namespace stepfuse::llvm
