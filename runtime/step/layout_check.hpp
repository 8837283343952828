// Whether a layout fits a step: what its program asks of each tensor, and of all of them. Knows the
// public API.
#pragma once

#include <cstdint>

#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

// Throws where a step of these options cannot be made of the program, whatever the layout is.
void check_step(const Program& program, const StepOptions& options);

// Takes the tensors of a layout one by one.
class LayoutCheck {
 public:
  // `program` must outlive this.
  explicit LayoutCheck(const Program& program);
  // Throws Error{bind} where tensor `index` does not fit, and then has not counted it.
  void add(const TensorSpec& spec, size_t index);
  void add(const Layout& layout);

 private:
  void check_flags(const TensorSpec& spec, size_t index) const;
  void check_blocks(const TensorSpec& spec, size_t index) const;
  void check_whole(Granularity g, const TensorSpec& spec, size_t index) const;

  const Program* program_;
  bool can_exclude_, can_freeze_;  // tensors from norm and finite check, and from the update
  bool counts_elements_, counts_true_;
  struct Counted {
    Granularity at;
    uint64_t count = 0;  // values, so far
  };
  std::vector<Counted> matrix_;  // the granularities that see tensors as matrices
};

// The layout's word for a state that says yes or no of each tensor; null for other states.
bool TensorSpec::* tensor_flag(const State& state);

}  // namespace stepfuse
