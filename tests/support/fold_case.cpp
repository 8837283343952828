// Makes the step that folds, and checks its results by the definition. Knows ir.
#include "tests/support/fold_case.hpp"

#include <limits>

#include <fmt/format.h>

#include <stepfuse/parser.hpp>

#include "ir/semantics/reduction.hpp"

namespace stepfuse::testing {
namespace {

constexpr uint64_t kSizes[] = {0, 1, 2, 31, 33, 256, 257, 2047, 2048, 2049};
constexpr Op kOps[] = {Op::reduce_add, Op::reduce_max, Op::reduce_min};

// States 1 to 3 and 4 to 6 are the results, in the order of kOps; 7 is that of `any`.
constexpr const char* kStep = R"(step @folds {
  buffer @grad : f32 in
  state @kept : <f32>
  report @sums : {f32}
  report @mosts : {f32}
  report @leasts : {f32}
  report @sum : <f32>
  report @most : <f32>
  report @least : <f32>
  report @any : {bool}
  %k = read @kept : <f32>
  %sums = reduce_add %k : {f32}
  %mosts = reduce_max %k : {f32}
  %leasts = reduce_min %k : {f32}
  %three = const 3 : f32
  %large = lt %three, %k : <bool>
  %any = reduce_any %large : {bool}
  %g = load @grad : [f32]
  %sum = reduce_add %g : <f32>
  %most = reduce_max %g : <f32>
  %least = reduce_min %g : <f32>
  write @sums, %sums
  write @mosts, %mosts
  write @leasts, %leasts
  write @sum, %sum
  write @most, %most
  write @least, %least
  write @any, %any
}
)";

TestLayout make_layout() {
  TestLayout layout;
  layout.signatures = {{DType::f32}};
  layout.group_count = static_cast<int32_t>(std::size(kSizes));
  for (size_t g = 0; g < std::size(kSizes); ++g) {
    for (uint64_t t = 0; t < kSizes[g]; ++t) {
      // The first tensor of each group has as many elements as the group has tensors.
      uint64_t size = t == 0 ? kSizes[g] : t == 1 ? 0 : t % 3 + 1;
      layout.tensors.push_back({.size = size, .group = static_cast<int32_t>(g)});
    }
  }
  return layout;
}

}  // namespace

FoldCase::FoldCase(bool nan)
    : program_(parse(kStep)), layout_(make_layout()), data_(program_, layout_, 7, Inputs::normal) {
  std::vector<Bits>& kept = data_.step().states[0];
  for (size_t t = 0; t < kept.size(); ++t) {
    int32_t group = layout_.tensors[t].group;
    bool last = t + 1 == kept.size() || layout_.tensors[t + 1].group != group;
    if (kSizes[group] <= 2) kept[t] = Bits::of(-0.0F);
    if (kSizes[group] > 2 && nan && last) {
      kept[t] = Bits::of(std::numeric_limits<float>::quiet_NaN());
    }
  }
}

std::string FoldCase::difference(const StepData& after) const {
  auto compare = [&](Op op, size_t state, size_t member, std::vector<Bits> values) -> std::string {
    size_t count = values.size();
    DType t = program_.states[state].type.dtype;
    Bits expected = canonical_nan(fold_values(op, t, std::move(values)), t);
    Bits actual = canonical_nan(after.states[state][member], t);
    if (expected == actual) return "";
    return fmt::format("@{}[{}], of {} values: expected {:#x}, got {:#x}",
                       program_.states[state].name, member, count, expected.raw, actual.raw);
  };
  const StepData& before = data_.step();
  std::string fault;
  for (size_t g = 0; fault.empty() && g < std::size(kSizes); ++g) {
    std::vector<Bits> values, large;
    for (size_t t = 0; t < before.tensors.size(); ++t) {
      if (before.tensors[t].group != static_cast<int32_t>(g)) continue;
      values.push_back(before.states[0][t]);
      large.push_back(Bits::of(values.back().f32() > 3));
    }
    for (size_t i = 0; fault.empty() && i < 3; ++i) fault = compare(kOps[i], 1 + i, g, values);
    if (fault.empty()) fault = compare(Op::reduce_any, 7, g, large);
  }
  for (size_t t = 0; fault.empty() && t < before.tensors.size(); ++t) {
    std::vector<Bits> values;
    const auto* elements = static_cast<const float*>(before.tensors[t].data[0]);
    for (size_t i = 0; i < before.tensors[t].size; ++i) values.push_back(Bits::of(elements[i]));
    for (size_t i = 0; fault.empty() && i < 3; ++i) fault = compare(kOps[i], 4 + i, t, values);
  }
  return fault;
}

}  // namespace stepfuse::testing
