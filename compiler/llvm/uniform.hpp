// Code of the coarser granularities: scalars, evaluated once per step, group or tensor. Knows the plan, the
// kernel ABI, and the expression table.
#pragma once

#include <array>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/abi.hpp"
#include "compiler/llvm/ops.hpp"
#include "compiler/llvm/text.hpp"
#include "compiler/plan/plan.hpp"

namespace stepfuse::llvm {

// The scalar values of one emitted function, by value id.
class Uniform {
 public:
  // Emits the loads of the context's fields; call it in the entry block.
  Uniform(const KernelPlan& plan, Module& module, Function& function);

  // Sets the member whose values are evaluated next: the name of an i64 value.
  void set_member(Granularity g, std::string index) { members_[number_of(g)] = std::move(index); }
  void set_group(std::string index) { set_member(per::group, std::move(index)); }
  // `present` is an i1.
  void set_tensor(std::string index, std::string present = "true") {
    set_member(per::tensor, std::move(index));
    present_ = std::move(present);
  }
  // Returns the first row, or column, of a tensor, and that of the next tensor.
  std::pair<std::string, std::string> members_of(Granularity g, const std::string& tensor);

  void evaluate(std::span<const plan::Inst> code);
  // Whether the instruction's value is read from the context's arrays, for its member.
  static bool reads(const plan::Inst& inst) { return is_reduction(inst.op) || inst.arity() == 0; }
  // Makes the step values of a stage available in a different function from the one that evaluated them.
  void load_scalars(const std::vector<plan::Inst>& code);
  void store_scalars(const std::vector<plan::Inst>& code);

  // Returns the register of a value, or the literal of a constant.
  std::string operator[](plan::Id v) const;
  void set(plan::Id v, std::string name) { names_[static_cast<size_t>(v)] = std::move(name); }

  // The address of element `index` of an array.
  using Owner = plan::Array::Owner;
  std::string element(Owner owner, int32_t array, std::string_view index, size_t bytes,
                      std::string_view hint) {
    return element(arrays_[static_cast<size_t>(owner)], array, index, bytes, hint);
  }
  // Likewise of a tensor's own array, a buffer.
  std::string element_of(const std::string& tensor, int32_t buffer, std::string_view index,
                         size_t bytes, std::string_view hint);

  std::string chunks, tensors, bases;
  std::string chunk_count, tensor_count, group_count;

 private:
  std::string field(std::string_view type, size_t offset, std::string_view hint);
  std::string element(std::string_view arrays, int32_t array, std::string_view index, size_t bytes,
                      std::string_view hint);
  std::string source(const plan::Inst& inst);
  std::string power(const plan::Inst& inst, const std::array<std::string, 3>& args);
  const std::string& member(Granularity g) const { return members_[number_of(g)]; }

  const KernelPlan& plan_;
  Function& f_;
  Ops ops_;
  std::vector<std::string> names_;
  std::array<std::string, 5> arrays_;  // by owner
  std::string step_args_, group_args_, scalars_;
  std::array<std::string, std::size(kGranularities)> members_ = {"0"};  // by number_of()
  std::string present_;
};

}  // namespace stepfuse::llvm
