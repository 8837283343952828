// Compiles a program for one processor level and runs the kernel on StepData, as interpret() does.
// Knows the CPU kernel and its tables.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/variant.hpp"
#include "ir/semantics/step_data.hpp"
#include "runtime/cpu/cpu_kernel.hpp"
#include "tests/support/random_data.hpp"

namespace stepfuse::testing {

struct RunnerOptions {
  Form form = Form::fused;
  std::string level = "host";
  bool optimize = false;  // run the passes first
};

class KernelRunner {
 public:
  // `data` only tells the storage types.
  KernelRunner(const Program& program, const StepData& data, const RunnerOptions& options = {});
  // From the text that was (or could have been) emitted for the variant.
  KernelRunner(Variant variant, std::string text, const CpuTarget& target,
               CpuCode code = CpuCode::optimized);

  void run(StepData& data, const CpuExecutor& executor) const;

  const std::string& text() const { return text_; }
  const CpuObject& object() const { return object_; }
  const Variant& variant() const { return variant_; }
  const CpuKernel& kernel() const { return *kernel_; }

 private:
  Variant variant_;
  std::string text_;
  CpuObject object_;
  std::shared_ptr<const CpuKernel> kernel_;
};

// Lays `data` out as a kernel of `variant` wants it, calls `run`, and takes the states back.
void run_on_tables(const Variant& variant, StepData& data,
                   const std::function<void(const abi::Context&)>& run);

// Interprets and runs the program on equal copies of `input`; returns the first difference, or "".
std::string compare_with_interpreter(const Program& program, const TestData& input,
                                     const RunnerOptions& options = {}, int threads = 1);

}  // namespace stepfuse::testing
