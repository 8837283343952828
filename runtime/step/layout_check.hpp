// Checks that a layout fits a step: the program's requirements on each tensor, and on all of them. Knows
// the public API.
#pragma once

#include <cstdint>

#include <stepfuse/program.hpp>
#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

// Throws if a step with these options cannot be made from the program, whatever the layout is.
void check_step(const Program& program, const StepOptions& options);

// Checks the tensors of a layout one by one.
class LayoutCheck {
 public:
  // `program` must outlive this object.
  explicit LayoutCheck(const Program& program);
  // Throws Error{bind} if tensor `index` does not fit, and then has not counted it.
  void add(const TensorSpec& spec, size_t index);
  void add(const Layout& layout);

 private:
  void check_flags(const TensorSpec& spec, size_t index) const;
  void check_arranged(const TensorSpec& spec, size_t index) const;
  void check_blocks(const TensorSpec& spec, size_t index) const;
  void check_block_cut(const TensorSpec& spec, size_t index) const;
  uint64_t block_in(const TensorSpec& spec) const;
  void check_whole(Granularity g, const TensorSpec& spec, size_t index) const;

  const Program* program_;
  // Tensors may be left out of norm and finite check, or of the update.
  bool can_exclude_, can_freeze_;
  bool counts_elements_, counts_true_;
  struct Counted {
    Granularity at;
    uint64_t count = 0;  // number of values so far
  };
  std::vector<Counted> matrix_;  // granularities that treat tensors as matrices
};

// Returns the layout's field for a state that holds a flag per tensor; null for other states.
bool TensorSpec::* tensor_flag(const State& state);

}  // namespace stepfuse
