// Scalar code of the coarser domains as LLVM IR. Knows the schedule, the kernel ABI, and the
// expression table.
#include "compiler/llvm/uniform.hpp"

#include <array>
#include <cstddef>

#include <stepfuse/printer.hpp>

namespace stepfuse::llvm {

Uniform::Uniform(const Schedule& schedule, Module& module, Function& function)
    : s_(schedule),
      p_(schedule.program),
      f_(function),
      ops_(module, function, 1),
      names_(schedule.program.insts.size()) {
  auto pointer = [&](size_t offset, std::string_view hint) { return field("ptr", offset, hint); };
  chunks = pointer(offsetof(abi::Context, chunks), "chunks");
  tensors = pointer(offsetof(abi::Context, tensors), "tensors");
  pointers = pointer(offsetof(abi::Context, pointers), "pointers");
  step_args_ = pointer(offsetof(abi::Context, step_args), "step_args");
  group_args_ = pointer(offsetof(abi::Context, group_args), "group_args");
  states = pointer(offsetof(abi::Context, states), "states");
  slots = pointer(offsetof(abi::Context, slots), "slots");
  results = pointer(offsetof(abi::Context, results), "results");
  scalars_ = pointer(offsetof(abi::Context, scalars), "scalars");
  scratch = pointer(offsetof(abi::Context, scratch), "scratch");
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

std::string Uniform::element(std::string_view array, size_t slot, std::string_view index,
                             size_t bytes, std::string_view hint) {
  std::string entry = f_.address(hint, array, fmt::format("{}", slot), sizeof(void*));
  std::string base = f_.set(hint, "load ptr, ptr {}", entry);
  return f_.address(hint, base, index, bytes);
}

const std::string& Uniform::operator[](ValueId v) const {
  const std::string& result = names_[static_cast<size_t>(v)];
  check_internal(!result.empty(), "a coarser value is used that no list of its stage computes");
  return result;
}

std::string Uniform::member(Domain d) const {
  switch (d) {
    case Domain::group:
      return group_;
    case Domain::tensor:
      return tensor_;
    default:
      return "0";
  }
}

// Values that are read from the context's arrays; "" for others.
std::string Uniform::source(ValueId v) {
  const Inst& inst = p_[v];
  std::string_view hint = p_.names[static_cast<size_t>(v)];
  auto slot = static_cast<size_t>(inst.slot);
  DType t = inst.type.dtype;
  if (is_reduction(inst.op)) {
    auto r = static_cast<size_t>(s_.reduction_index(v));
    return ops_.load(t, element(results, r, member(inst.type.domain), size_of(t), hint), hint);
  }
  switch (inst.op) {
    case Op::constant:
      return literal(t, inst.literal);
    case Op::arg: {
      bool in_group = inst.type.domain == Domain::group;
      size_t before = 0;
      size_t count = 0;
      for (size_t i = 0; i < p_.args.size(); ++i) {
        if ((p_.args[i].type.domain == Domain::group) != in_group) continue;
        before += i < slot ? 1 : 0;
        ++count;
      }
      std::string row = in_group_row(in_group, count, hint);
      std::string at = f_.address(hint, row, fmt::format("{}", before), sizeof(uint64_t));
      return ops_.load(t, at, hint);
    }
    case Op::read:
      return ops_.load(t, element(states, slot, member(inst.type.domain), size_of(t), hint), hint);
    case Op::present:
      return present_;
    case Op::tensor_index:
      return f_.set(hint, "trunc i64 {} to i32", tensor_);
    default:
      return "";
  }
}

std::string Uniform::in_group_row(bool in_group, size_t count, std::string_view hint) {
  return in_group ? f_.address(hint, group_args_, group_, count * sizeof(uint64_t)) : step_args_;
}

void Uniform::evaluate(const std::vector<ValueId>& code) {
  for (ValueId v : code) {
    const Inst& inst = p_[v];
    f_.comment(print_inst(p_, v));
    std::string result = source(v);
    if (result.empty()) {
      ValueId first = inst.operands[0];
      DType in = p_[inst.op == Op::select ? inst.operands[1] : first].type.dtype;
      if (inst.type.dtype == DType::bound) continue;
      if (in == DType::bound) {
        throw Error(ErrorKind::compile,
                    fmt::format("`{}`: the CPU backend reads a value of a bound storage type back "
                                "in the element domain only",
                                print_inst(p_, v)));
      }
      std::array<std::string, 3> args;
      auto count = static_cast<size_t>(inst.arity());
      for (size_t i = 0; i < count; ++i) args[i] = (*this)[inst.operands[i]];
      std::string_view hint = p_.names[static_cast<size_t>(v)];
      if (inst.op == Op::powi) {
        args[1] = ops_.cast(args[1], p_[inst.operands[1]].type.dtype, DType::i64, hint);
      }
      result = ops_.apply(inst.op, in, inst.type.dtype, std::span(args).first(count), hint);
    }
    set(v, result);
  }
}

void Uniform::load_scalars(const std::vector<ValueId>& code) {
  for (ValueId v : code) {
    const Inst& inst = p_[v];
    if (inst.type.dtype == DType::bound) continue;
    if (inst.op == Op::constant) {
      set(v, literal(inst.type.dtype, inst.literal));
      continue;
    }
    std::string_view hint = p_.names[static_cast<size_t>(v)];
    std::string at = f_.address(hint, scalars_, fmt::format("{}", v), sizeof(uint64_t));
    set(v, ops_.load(inst.type.dtype, at, hint));
  }
}

void Uniform::store_scalars(const std::vector<ValueId>& code) {
  for (ValueId v : code) {
    const Inst& inst = p_[v];
    if (inst.op == Op::constant || inst.type.dtype == DType::bound) continue;
    std::string_view hint = p_.names[static_cast<size_t>(v)];
    std::string at = f_.address(hint, scalars_, fmt::format("{}", v), sizeof(uint64_t));
    DType t = inst.type.dtype;
    if (size_of(t) < sizeof(uint64_t)) f_.line("store i64 0, ptr {}", at);
    ops_.store(t, (*this)[v], at);
  }
}

}  // namespace stepfuse::llvm
