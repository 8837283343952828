// Seeded arrays for a step: the same for every backend, form and thread count. Knows the public API.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "runtime/saved/digest.hpp"
#include "tools/workload/arrays.hpp"
#include "tools/workload/layout_file.hpp"
#include "tools/workload/values.hpp"

namespace stepfuse {

enum class Inputs : uint8_t {
  normal,
  // Zeros of both signs, subnormals, NaN, infinities and the largest values in weights and moments.
  // Gradients are in turn mild, non-finite, mild and huge, so that good steps, overflows and
  // overflowing norms all happen.
  special,
  // Ordinary values, with one NaN or infinity in one tensor that has a gradient, in every second
  // step from step 1 on. It reveals a lane that drops a value.
  single,
};

struct WorkloadOptions {
  uint64_t seed = 1;
  Inputs inputs = Inputs::normal;
  double absent = 0;              // probability that a tensor has no gradient in a step
  bool moving = false;            // gradients change their addresses from step to step
  std::string gradient = "grad";  // the buffer that is passed to each run
};

class Workload {
 public:
  // Throws Error{bind} if the layout does not fit the program.
  Workload(const Program& program, const LayoutFile& file, const Bindings& bindings,
           const WorkloadOptions& options);

  const Layout& layout() const { return layout_; }
  const WorkloadOptions& options() const { return options_; }

  // Fills every array, binds them, and initialises the step's state. Call it before the first run.
  void start(Step& step);
  // Binds the arrays as they are, to continue with a different step.
  void bind(Step& step) const;
  // Writes the gradients of step `index` and returns their addresses for run(). An address is null
  // if the tensor has no gradient. Empty for a program without a gradient buffer. Valid until the
  // next call.
  std::span<void* const> gradients(uint64_t index);

  // The digest of every buffer, then of every state, in declaration order.
  std::string digest(const Step& step) const;
  // The memory of all arrays, for devices that must register it.
  std::vector<std::span<char>> memory() const;
  // A description of the bytes that were written outside of any array.
  std::optional<std::string> damage() const;

  // The arrays of a buffer, including the newest step's gradients. Throws Error{usage} for a name
  // that the program does not have.
  const ArraySet& arrays(std::string_view buffer) const;

 private:
  bool is_gradient(size_t buffer) const { return static_cast<int>(buffer) == gradient_; }
  size_t current() const;
  void fill_buffer(size_t buffer, Spice spice);
  void spoil_one(uint64_t index);
  float gradient_scale(size_t tensor) const;

  Program program_;
  WorkloadOptions options_;
  Layout layout_;
  int gradient_ = -1;
  float base_scale_ = 1;
  std::vector<ArraySet> arrays_;  // [buffer]; if gradients move, also their second location
  uint64_t steps_ = 0;
  std::vector<void*> given_;
};

}  // namespace stepfuse
