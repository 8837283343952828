// Runs a loaded schedule: step code, chunks on all threads, folds, state writes. Knows the kernel
// ABI, the executor and the linked module.
#include "runtime/cpu/cpu_kernel.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "ir/error.hpp"
#include "ir/fp_env.hpp"
#include "ir/reduction.hpp"
#include "runtime/cpu/elf_object.hpp"
#include "runtime/cpu/fold.hpp"
#include "runtime/cpu/llvm_module.hpp"

namespace stepfuse {
namespace {

// A range of at most this many elements is handed to a thread at once, and less where there would
// be few ranges for each: the last one decides when all are done.
constexpr uint64_t kRangeElements = 8 * kPieceElements;
constexpr uint32_t kRangesPerThread = 8;
// Up to this many, waking another thread costs more than it brings.
constexpr uint64_t kInlineElements = 4 * kPieceElements;
constexpr uint32_t kSamples = 64;

// How many chunks make a range; chunks of a layout of tiny tensors are short.
uint32_t grain(const abi::Context& context, uint32_t begin, uint32_t end, int threads) {
  uint32_t count = end - begin;
  uint32_t stride = std::max(1U, count / kSamples);
  uint64_t elements = 0;
  uint32_t samples = 0;
  for (uint32_t i = begin; i < end; i += stride, ++samples) elements += context.chunks[i].length;
  uint64_t total = std::max<uint64_t>(1, elements * count / samples);
  if (total <= kInlineElements) return count;
  uint64_t most = kRangeElements * count / total;
  uint64_t fair = count / (kRangesPerThread * static_cast<uint32_t>(threads));
  return static_cast<uint32_t>(std::max<uint64_t>(1, std::min(most, fair)));
}

}  // namespace

// An object in this process: placed by ourselves, or by LLVM where we do not know how.
class CpuKernel::Module {
 public:
  explicit Module(std::string_view object) : elf_(ElfObject::load(object)) {
    if (!elf_) llvm_ = std::make_unique<LlvmModule>(object);
  }
  void* symbol(const std::string& name) const {
    if (llvm_) return llvm_->symbol(name);
    if (void* found = elf_->symbol(name)) return found;
    throw Error(ErrorKind::compile, fmt::format("the kernel's object has no {}", name));
  }

 private:
  std::unique_ptr<ElfObject> elf_;
  std::unique_ptr<LlvmModule> llvm_;
};

CpuKernel::CpuKernel() = default;
CpuKernel::~CpuKernel() = default;

std::shared_ptr<const CpuKernel> CpuKernel::load(std::string_view object,
                                                 const Schedule& schedule) {
  auto start = std::chrono::steady_clock::now();
  std::shared_ptr<CpuKernel> kernel(new CpuKernel);
  kernel->module_ = std::make_unique<Module>(object);
  for (ValueId r : schedule.reductions) {
    const Inst& inst = schedule.program[r];
    kernel->reductions_.push_back({inst.op, inst.type.dtype, inst.type.domain, 0});
  }
  for (size_t p = 0; p < schedule.phases.size(); ++p) {
    const Phase& phase = schedule.phases[p];
    PhaseEntry entry;
    entry.enter =
        reinterpret_cast<EnterFunction>(kernel->module_->symbol(fmt::format("sf_enter_{}", p)));
    entry.chunks =
        reinterpret_cast<PhaseFunction>(kernel->module_->symbol(fmt::format("sf_phase_{}", p)));
    for (const Body* body : {&phase.body, &phase.otherwise}) {
      for (ValueId r : body->reductions) {
        int32_t index = schedule.reduction_index(r);
        if (std::count(entry.reductions.begin(), entry.reductions.end(), index) != 0) continue;
        entry.reductions.push_back(index);
        kernel->reductions_[static_cast<size_t>(index)].phase = static_cast<int32_t>(p);
      }
    }
    kernel->phases_.push_back(std::move(entry));
  }
  kernel->finish_ = reinterpret_cast<EnterFunction>(kernel->module_->symbol("sf_finish"));
  kernel->load_ms_ =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return kernel;
}

void CpuKernel::run(const abi::Context& context, const CpuExecutor& executor,
                    int first_phase) const noexcept {
  for (int p = first_phase; p < phase_count(); ++p) {
    run_chunks(context, executor, p, 0, context.chunk_count);
    fold(context, executor, p);
  }
  finish(context);
}

void CpuKernel::run_chunks(const abi::Context& context, const CpuExecutor& executor, int phase,
                           uint32_t begin, uint32_t end) const noexcept {
  if (begin >= end) return;
  const PhaseEntry& entry = phases_[static_cast<size_t>(phase)];
  {
    FpEnvGuard guard;
    entry.enter(&context);
  }
  struct Job {
    const abi::Context* context;
    PhaseFunction chunks;
  };
  Job job{&context, entry.chunks};
  executor.for_ranges(
      begin, end, grain(context, begin, end, executor.threads()),
      [](const void* data, uint32_t from, uint32_t to) {
        FpEnvGuard guard;
        const Job& j = *static_cast<const Job*>(data);
        j.chunks(j.context, from, to);
      },
      &job);
}

void CpuKernel::fold(const abi::Context& context, const CpuExecutor&, int phase) const noexcept {
  FpEnvGuard guard;
  for (int32_t r : phases_[static_cast<size_t>(phase)].reductions) {
    const ReductionPlan& plan = reductions_[static_cast<size_t>(r)];
    fold_slots(context, r, plan.op, plan.dtype, plan.domain);
  }
}

void CpuKernel::finish(const abi::Context& context) const noexcept {
  FpEnvGuard guard;
  finish_(&context);
}

}  // namespace stepfuse
