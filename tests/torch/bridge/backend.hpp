// The ways to run a program that the comparison with PyTorch knows. Knows everything.
#pragma once

#include <memory>
#include <string>

#include "ir/program.hpp"
#include "ir/step_data.hpp"

namespace stepfuse::torch_check {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual void layout(const StepData&) {}  // sizes, groups and storage types were set
  virtual void run(const Program& program, StepData& data) = 0;
};

// "interpret", or "cpu" with an optional form: "cpu:unfused".
std::unique_ptr<Backend> make_backend(const std::string& name, const Program& program);

}  // namespace stepfuse::torch_check
