// A compiled step, loaded into this process and ready to run on tables. Knows the kernel ABI,
// the plan, and the executor.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/abi.hpp"
#include "compiler/plan/plan.hpp"
#include "runtime/cpu/cpu_executor.hpp"
#include "runtime/cpu/llvm_compiler.hpp"

namespace stepfuse {

// How a reduction's slots are folded.
struct ReductionPlan {
  Op op = Op::reduce_add;
  DType dtype = DType::f32;
  uint32_t partition = 0;        // of Context::parts
  std::optional<size_t> strips;  // to columns: the place of strips in Context::bases
};

class CpuKernel {
 public:
  // Links the bytes of compile_cpu (fresh, or from a cache) into the process; `plan` is the one
  // they were emitted from. Throws Error{compile} for bytes that are not such an object.
  static std::shared_ptr<const CpuKernel> load(std::string_view object, const KernelPlan& plan);
  ~CpuKernel();

  int phase_count() const noexcept { return static_cast<int>(phases_.size()); }
  double load_ms() const noexcept { return load_ms_; }

  // The whole step, or what is left of it after phases [0, first_phase) were run and folded by the
  // calls below; what is rolled up from their results is made again, for somebody may have replaced
  // these. Allocates nothing, takes no lock, and leaves the caller's floating-point mode as
  // it was. Concurrent calls need Contexts with distinct slots, results, scalars and states.
  void run(const abi::Context& context, const CpuExecutor& executor,
           int first_phase = 0) const noexcept;

  // The same in parts, in this order for each phase: its chunks (any ranges, any order, again =
  // overwrite; step code is evaluated on each call), then its fold once all chunks are done, with
  // the rollups behind it.
  void run_chunks(const abi::Context& context, const CpuExecutor& executor, int phase,
                  uint32_t begin, uint32_t end) const noexcept;
  void fold(const abi::Context& context, const CpuExecutor& executor, int phase) const noexcept;
  void finish(const abi::Context& context) const noexcept;

 private:
  using EnterFunction = void (*)(const abi::Context*);
  using PhaseFunction = void (*)(const abi::Context*, int64_t begin, int64_t end);
  struct WorkEntry {
    EnterFunction operands = nullptr;  // of a rollup; null: it only folds
    std::vector<int32_t> folds;
    bool arranges = false;
  };
  struct PhaseEntry {
    EnterFunction enter = nullptr;
    PhaseFunction chunks = nullptr;
    bool is_empty = false;  // no chunk has work
    std::vector<WorkEntry> work;
  };
  class Module;  // the linked object

  CpuKernel();
  PhaseEntry load_phase(const KernelPlan& plan, size_t phase) const;
  void fold_one(const abi::Context& context, const CpuExecutor& executor, int32_t r) const noexcept;
  void arrange(const abi::Context& context, const CpuExecutor& executor) const noexcept;
  void fold_from(const abi::Context& context, const CpuExecutor& executor, int phase,
                 size_t first) const noexcept;
  std::unique_ptr<Module> module_;
  std::vector<PhaseEntry> phases_;
  EnterFunction finish_ = nullptr;
  std::vector<ReductionPlan> reductions_;
  std::vector<plan::Arrangement> arrangements_;
  size_t tile_bases_ = 0;  // the place of arranged tiles in Context::bases
  uint32_t buffer_count_ = 0;
  int32_t rows_in_order_ = 0;
  double load_ms_ = 0;
};

}  // namespace stepfuse
