// Scalar code of the coarser granularities as LLVM IR. Knows the plan, the kernel ABI, and the expression
// table.
#include "compiler/llvm/uniform.hpp"

#include <array>
#include <cstddef>

#include <stepfuse/error.hpp>

namespace stepfuse::llvm {

Uniform::Uniform(const KernelPlan& plan, Module& module, Function& function)
    : plan_(plan), f_(function), ops_(module, function, 1), names_(plan.values.size()) {
  auto pointer = [&](size_t offset, std::string_view hint) { return field("ptr", offset, hint); };
  chunks = pointer(offsetof(abi::Context, chunks), "chunks");
  tensors = pointer(offsetof(abi::Context, tensors), "tensors");
  bases = pointer(offsetof(abi::Context, bases), "bases");
  step_args_ = pointer(offsetof(abi::Context, step_args), "step_args");
  group_args_ = pointer(offsetof(abi::Context, group_args), "group_args");
  scalars_ = pointer(offsetof(abi::Context, scalars), "scalars");
  constexpr size_t kOffsets[] = {offsetof(abi::Context, pointers), offsetof(abi::Context, scratch),
                                 offsetof(abi::Context, states), offsetof(abi::Context, results),
                                 offsetof(abi::Context, slots)};
  for (size_t i = 0; i < arrays_.size(); ++i) {
    arrays_[i] = pointer(kOffsets[i], plan::context_array(static_cast<Owner>(i)));
  }
  auto count = [&](size_t offset, std::string_view hint) {
    return f_.set(hint, "zext i32 {} to i64", field("i32", offset, hint));
  };
  chunk_count = count(offsetof(abi::Context, chunk_count), "chunk_count");
  tensor_count = count(offsetof(abi::Context, tensor_count), "tensor_count");
  group_count = count(offsetof(abi::Context, group_count), "group_count");
}

std::string Uniform::field(std::string_view type, size_t offset, std::string_view hint) {
  std::string at = f_.set(hint, "getelementptr i8, ptr %ctx, i64 {}", offset);
  return f_.set(hint, "load {}, ptr {}", type, at);
}

std::string Uniform::element(std::string_view arrays, int32_t array, std::string_view index,
                             size_t bytes, std::string_view hint) {
  std::string entry = f_.address(hint, arrays, fmt::format("{}", array), sizeof(void*));
  std::string base = f_.set(hint, "load ptr, ptr {}", entry);
  return f_.address(hint, base, index, bytes);
}

std::string Uniform::element_of(const std::string& tensor, int32_t buffer, std::string_view index,
                                size_t bytes, std::string_view hint) {
  size_t row = static_cast<size_t>(plan_.buffer_count) * sizeof(void*);
  std::string buffers = f_.address(hint, arrays_[static_cast<size_t>(Owner::caller)], tensor, row);
  return element(buffers, buffer, index, bytes, hint);
}

std::string Uniform::operator[](plan::Id v) const {
  const plan::Value& value = plan_[v];
  if (value.is_constant) return literal(value.dtype, value.literal);
  const std::string& result = names_[static_cast<size_t>(v)];
  check_internal(!result.empty(), "a coarser value is used that no list of its stage computes");
  return result;
}

std::pair<std::string, std::string> Uniform::members_of(Granularity g, const std::string& tensor) {
  constexpr size_t kParts = offsetof(abi::Context, parts);
  uint32_t part = abi::partition_index(number_of(g), number_of(per::tensor));
  size_t of_tensors = kParts + part * sizeof(abi::Partition);
  std::string hint(info(g).name);
  std::string begin = field("ptr", of_tensors + offsetof(abi::Partition, begin), hint + "s");
  std::string at = f_.address(hint + "s.at", begin, tensor, sizeof(uint32_t));
  std::string behind = f_.set(hint + "s.behind", "getelementptr i8, ptr {}, i64 4", at);
  auto number = [&](const std::string& from) {
    return f_.set(hint, "zext i32 {} to i64", f_.set(hint, "load i32, ptr {}", from));
  };
  std::string first = number(at);
  return {first, number(behind)};
}

// Emits values that are read from the context's arrays; returns "" for others.
std::string Uniform::source(const plan::Inst& inst) {
  const plan::Value& value = plan_[inst.value];
  const std::string& hint = value.name;
  DType t = inst.out;
  if (auto owner = plan::owner_of(inst)) {
    return ops_.load(t, element(*owner, inst.index, member(value.at), size_of(t), hint), hint);
  }
  switch (inst.op) {
    case Op::arg: {
      auto rows = [&](const std::string& from, const std::string& count, uint32_t words) {
        return f_.address(hint, from, count, words * sizeof(uint64_t));
      };
      const ArgLayout& args = plan_.args;
      std::string row = value.at == per::step ? step_args_
                        : value.at == per::group
                            ? rows(group_args_, member(per::group), args.group_words)
                            : rows(rows(group_args_, group_count, args.group_words),
                                   member(per::tensor), args.tensor_words);
      std::string at = f_.address(hint, row, fmt::format("{}", inst.index), sizeof(uint64_t));
      return ops_.load(t, at, hint);
    }
    case Op::present:
      return present_;
    case Op::tensor_index:
      return f_.set(hint, "trunc i64 {} to i32", member(per::tensor));
    case Op::element_count:
    case Op::column_count: {
      std::string record = f_.address(hint, tensors, member(per::tensor), sizeof(abi::Tensor));
      std::string at = f_.set(hint, "getelementptr i8, ptr {}, i64 {}", record,
                              inst.op == Op::element_count ? offsetof(abi::Tensor, full_size)
                                                           : offsetof(abi::Tensor, columns));
      return f_.set(hint, "load i64, ptr {}", at);
    }
    default:
      return "";
  }
}

// Most tensors have the same base and exponent as the one before, and therefore the same power.
std::string Uniform::power(const plan::Inst& inst, const std::array<std::string, 3>& args) {
  const std::string& hint = plan_[inst.value].name;
  std::string type = type_text(inst.out, 1);
  std::string bits = integer_type_text(static_cast<int>(8 * size_of(inst.out)), 1);
  std::string one = literal(inst.out, inst.out == DType::f32 ? Bits::of(1.0F) : Bits::of(1.0));
  std::string base_at = f_.allocate(hint + ".base", type, one);
  std::string exponent_at = f_.allocate(hint + ".exponent", "i64", "0");
  std::string power_at = f_.allocate(hint + ".last", type, one);
  std::string base = f_.set(hint, "bitcast {} {} to {}", type, args[0], bits);
  std::string last_base = f_.set(hint, "load {}, ptr {}", bits, base_at);
  std::string last_exponent = f_.set(hint, "load i64, ptr {}", exponent_at);
  std::string same_base = f_.set(hint, "icmp eq {} {}, {}", bits, base, last_base);
  std::string same_exponent = f_.set(hint, "icmp eq i64 {}, {}", args[1], last_exponent);
  std::string same = f_.set(hint, "and i1 {}, {}", same_base, same_exponent);
  f_.if_("power.known", same, {}, [&] {
    std::string result = ops_.apply(inst.op, inst.in, inst.out, std::span(args).first(2), hint);
    f_.line("store {} {}, ptr {}", type, args[0], base_at);
    f_.line("store i64 {}, ptr {}", args[1], exponent_at);
    f_.line("store {} {}, ptr {}", type, result, power_at);
  });
  return f_.set(hint, "load {}, ptr {}", type, power_at);
}

void Uniform::evaluate(std::span<const plan::Inst> code) {
  for (const plan::Inst& inst : code) {
    f_.comment(plan_[inst.value].text);
    std::string result = source(inst);
    if (result.empty()) {
      const std::string& hint = plan_[inst.value].name;
      std::array<std::string, 3> args;
      auto count = static_cast<size_t>(inst.arity());
      for (size_t i = 0; i < count; ++i) args[i] = (*this)[inst.operands[i]];
      if (inst.op == Op::powi) {
        args[1] = ops_.cast(args[1], plan_[inst.operands[1]].dtype, DType::i64, hint);
      }
      bool again = inst.op == Op::powi && plan_[inst.value].at != per::step;
      result =
          again ? power(inst, args) : ops_.compute(plan_, inst, std::span(args).first(count), hint);
    }
    set(inst.value, result);
  }
  if (!code.empty()) f_.end_comment();
}

void Uniform::load_scalars(const std::vector<plan::Inst>& code) {
  for (const plan::Inst& inst : code) {
    const std::string& hint = plan_[inst.value].name;
    std::string at = f_.address(hint, scalars_, fmt::format("{}", inst.value), sizeof(uint64_t));
    set(inst.value, ops_.load(inst.out, at, hint));
  }
}

void Uniform::store_scalars(const std::vector<plan::Inst>& code) {
  for (const plan::Inst& inst : code) {
    const std::string& hint = plan_[inst.value].name;
    std::string at = f_.address(hint, scalars_, fmt::format("{}", inst.value), sizeof(uint64_t));
    if (size_of(inst.out) < sizeof(uint64_t)) f_.line("store i64 0, ptr {}", at);
    ops_.store(inst.out, (*this)[inst.value], at);
  }
}

}  // namespace stepfuse::llvm
