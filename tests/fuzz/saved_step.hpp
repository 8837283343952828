// A small step that has run, with arrays of its own and a place for its files. Knows the public API.
#pragma once

#include <array>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "tests/support/scratch_folder.hpp"

namespace stepfuse::testing {

class SavedStep {
 public:
  SavedStep() {
    for (size_t b = 0; b < kBuffers.size(); ++b) {
      arrays[b].assign(kSizes[0] + kSizes[1], 1.0F);
      step.bind_raw(kBuffers[b], pointers(b));
    }
    step.prepare();
    step.init_state();
    run();
  }
  void run() { step.run(pointers(3), step.make_args()); }

  static constexpr size_t kSizes[] = {30, 40};
  static constexpr std::array<const char*, 3> kBuffers = {"weight", "exp_avg", "exp_avg_sq"};
  std::string path() const { return (scratch_.path() / "a.safetensors").string(); }

  std::array<std::vector<float>, 4> arrays;  // the last is the gradient
  LossScaler scaler;
  Step step{make_recipe("adamw", {.loss_scale = LossScale::dynamic, .clip = Clip::l2}),
            Layout()
                .add({.name = "a", .elements = kSizes[0]})
                .add({.name = "b", .elements = kSizes[1], .group = 1}),
            Device::interpreter(),
            {.scaler = &scaler}};

 private:
  std::vector<void*> pointers(size_t b) {
    arrays[b].resize(kSizes[0] + kSizes[1], 0.5F);
    return {arrays[b].data(), arrays[b].data() + kSizes[0]};
  }
  ScratchFolder scratch_;
};

}  // namespace stepfuse::testing
