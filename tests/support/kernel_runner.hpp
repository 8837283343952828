// Compiles a program for one processor level and runs the kernel on StepData, as interpret() does.
// Knows the CPU kernel and its tables.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "compiler/variant.hpp"
#include "ir/step_data.hpp"
#include "runtime/cpu/cpu_kernel.hpp"

namespace stepfuse {

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
  KernelRunner(Variant variant, std::string text, const CpuTarget& target);

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

// A StepData that owns its arrays, each between guards that must not change.
class OwnedData {
 public:
  OwnedData(const Program& program, int groups);
  OwnedData(const OwnedData& other);
  OwnedData& operator=(const OwnedData&) = delete;

  // `misalign`: elements that each array starts behind a 64-byte border.
  void add_tensor(const Program& program, uint64_t size, int group, bool present,
                  const std::vector<DType>& dtypes, int misalign = 0);
  // Fills arrays, states and args from a seed; `special` puts NaN, inf, subnormals, -0 and huge
  // values among them.
  void fill(const Program& program, uint64_t seed, bool special);

  StepData data;

  // "" if equal to the bit (NaNs alike), else the first difference.
  std::string difference(const Program& program, const OwnedData& other) const;
  bool guards_hold() const;

 private:
  struct Array {
    std::vector<unsigned char> bytes;
    size_t offset = 0;
    size_t size = 0;
    unsigned char* begin() { return bytes.data() + offset; }
    const unsigned char* begin() const { return bytes.data() + offset; }
  };
  void place(Array& array, size_t size, size_t misalign_bytes);
  void point();
  std::vector<std::vector<Array>> arrays_;  // [tensor][buffer]
};

void run_interpreter(const Program& program, OwnedData& data);

// Interprets and runs the program on equal copies of `input`; returns the first difference, or "".
std::string compare_with_interpreter(const Program& program, const OwnedData& input,
                                     const RunnerOptions& options = {}, int threads = 1);

}  // namespace stepfuse
