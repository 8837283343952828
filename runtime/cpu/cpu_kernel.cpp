// Runs a loaded kernel: step code, chunks on all threads, folds, state writes. Knows the kernel
// ABI, the executor and the linked module.
#include "runtime/cpu/cpu_kernel.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/semantics/fp_env.hpp"
#include "ir/semantics/reduction.hpp"
#include "runtime/cpu/arrange.hpp"
#include "runtime/cpu/elf_object.hpp"
#include "runtime/cpu/fold.hpp"
#include "runtime/cpu/llvm_module.hpp"
#include "runtime/cpu/perf_map.hpp"

namespace stepfuse {
namespace {

// A range of at most this many elements is handed to a thread at once, and less where there would
// be few ranges for each: the last one decides when all are done.
constexpr uint64_t kRangeElements = 8 * kPieceElements;
constexpr uint32_t kRangesPerThread = 8;
// Up to this many, waking another thread costs more than it brings.
constexpr uint64_t kInlineElements = 4 * kPieceElements;
constexpr uint32_t kSamples = 64;
// A fold hands out this many results at once; each takes some nanoseconds.
constexpr uint32_t kRangeParts = 2048;
// Tiles of 128 by 128 elements that a thread arranges at once.
constexpr uint32_t kRangeTiles = 8;

// The first chunk from `chunk` on that begins a strip of `rows` rows; `end` if none does.
uint32_t next_in_order(const abi::Context& context, int32_t rows, uint32_t chunk, uint32_t end) {
  for (; chunk < end; ++chunk) {
    const abi::Chunk& c = context.chunks[chunk];
    if (c.begin / context.tensors[c.tensor].columns % static_cast<uint64_t>(rows) == 0) break;
  }
  return chunk;
}

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
  Module(std::string_view object, const std::string& step) : elf_(ElfObject::load(object)) {
    if (!elf_) {
      llvm_ = std::make_unique<LlvmModule>(object);
      return;
    }
    for (const auto& [name, f] : elf_->functions()) {
      name_for_profilers(f.address, f.bytes, step, name);
    }
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

std::shared_ptr<const CpuKernel> CpuKernel::load(std::string_view object, const KernelPlan& plan) {
  auto start = std::chrono::steady_clock::now();
  std::shared_ptr<CpuKernel> kernel(new CpuKernel);
  kernel->module_ = std::make_unique<Module>(object, plan.name);
  kernel->rows_in_order_ = plan.rows_in_order;
  kernel->arrangements_ = plan.arrangements;
  kernel->tile_bases_ = plan.base_of(kArrangedTile);
  kernel->buffer_count_ = static_cast<uint32_t>(plan.buffer_count);
  for (const plan::Reduction& r : plan.reductions) {
    kernel->reductions_.push_back({r.op, r.dtype, r.partition, {}});
    if (r.partials == per::strip) kernel->reductions_.back().strips = plan.base_of(per::strip);
  }
  for (size_t p = 0; p < plan.phases.size(); ++p) {
    kernel->phases_.push_back(kernel->load_phase(plan, p));
  }
  kernel->finish_ = reinterpret_cast<EnterFunction>(kernel->module_->symbol("sf_finish"));
  kernel->load_ms_ =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return kernel;
}

CpuKernel::PhaseEntry CpuKernel::load_phase(const KernelPlan& plan, size_t p) const {
  const plan::Phase& phase = plan.phases[p];
  auto function = [&](const std::string& name) {
    return reinterpret_cast<EnterFunction>(module_->symbol(name));
  };
  PhaseEntry entry;
  entry.enter = function(fmt::format("sf_enter_{}", p));
  entry.chunks = reinterpret_cast<PhaseFunction>(module_->symbol(fmt::format("sf_phase_{}", p)));
  entry.is_empty = !phase.has_work();
  for (const plan::Work& w : phase.work) {
    EnterFunction operands = nullptr;
    if (w.rollup != plan::kNone) operands = function(fmt::format("sf_rollup_{}_{}", p, w.rollup));
    entry.work.push_back({operands, w.folds, w.arranges});
  }
  return entry;
}

void CpuKernel::run(const abi::Context& context, const CpuExecutor& executor,
                    int first_phase) const noexcept {
  for (int p = 0; p < first_phase; ++p) {
    const std::vector<WorkEntry>& work = phases_[static_cast<size_t>(p)].work;
    auto rollup = std::find_if(work.begin(), work.end(), [](auto& w) { return w.operands; });
    fold_from(context, executor, p, static_cast<size_t>(rollup - work.begin()));
  }
  for (int p = first_phase; p < phase_count(); ++p) {
    run_chunks(context, executor, p, 0, context.chunk_count);
    fold(context, executor, p);
  }
  finish(context);
}

void CpuKernel::run_chunks(const abi::Context& context, const CpuExecutor& executor, int phase,
                           uint32_t begin, uint32_t end) const noexcept {
  const PhaseEntry& entry = phases_[static_cast<size_t>(phase)];
  if (begin >= end || entry.is_empty) return;
  {
    FpEnvGuard guard;
    entry.enter(&context);
  }
  struct Job {
    const abi::Context* context;
    PhaseFunction chunks;
    int32_t rows_in_order;
    uint32_t end;
  };
  Job job{&context, entry.chunks, rows_in_order_, end};
  executor.for_ranges(
      begin, end, grain(context, begin, end, executor.threads()),
      [](const void* data, uint32_t from, uint32_t to) {
        FpEnvGuard guard;
        const Job& j = *static_cast<const Job*>(data);
        if (j.rows_in_order > 0) {  // whoever has the first of these chunks does all of them
          from = next_in_order(*j.context, j.rows_in_order, from, to);
          if (from == to) return;
          to = next_in_order(*j.context, j.rows_in_order, to, j.end);
        }
        j.chunks(j.context, from, to);
      },
      &job);
}

void CpuKernel::fold(const abi::Context& context, const CpuExecutor& executor,
                     int phase) const noexcept {
  fold_from(context, executor, phase, 0);
}

void CpuKernel::fold_from(const abi::Context& context, const CpuExecutor& executor, int phase,
                          size_t first) const noexcept {
  const std::vector<WorkEntry>& work = phases_[static_cast<size_t>(phase)].work;
  for (size_t i = first; i < work.size(); ++i) {
    if (work[i].operands != nullptr) {
      FpEnvGuard guard;
      work[i].operands(&context);
    }
    for (int32_t r : work[i].folds) fold_one(context, executor, r);
    if (work[i].arranges) arrange(context, executor);
  }
}

void CpuKernel::arrange(const abi::Context& context, const CpuExecutor& executor) const noexcept {
  ArrangedTiles tiles(context, tile_bases_);
  struct Job {
    const CpuKernel* kernel;
    const abi::Context* context;
    const ArrangedTiles* tiles;
  };
  Job job{this, &context, &tiles};
  executor.for_ranges(
      0, tiles.count(), kRangeTiles,
      [](const void* data, uint32_t from, uint32_t to) {
        const Job& j = *static_cast<const Job*>(data);
        for (uint32_t number = from; number < to; ++number) {
          ArrangedTiles::Tile tile = j.tiles->at(number);
          if (!tile.present) continue;
          void* const* own = j.context->pointers + uint64_t{tile.tensor} * j.kernel->buffer_count_;
          for (const plan::Arrangement& a : j.kernel->arrangements_) {
            arrange_tile(a, tile, own[a.from], own[a.to]);
          }
        }
      },
      &job);
}

void CpuKernel::fold_one(const abi::Context& context, const CpuExecutor& executor,
                         int32_t r) const noexcept {
  struct Job {
    const abi::Context* context;
    int32_t reduction;
    const ReductionPlan* plan;
    const abi::Partition* parts;
  };
  const ReductionPlan& plan = reductions_[static_cast<size_t>(r)];
  Job job{&context, r, &plan, &context.parts[plan.partition]};
  uint32_t results = plan.strips ? context.parts[abi::kColumnsOfTensors].begin[context.tensor_count]
                                 : job.parts->count;
  executor.for_ranges(
      0, results, kRangeParts,
      [](const void* data, uint32_t from, uint32_t to) {
        FpEnvGuard guard;
        const Job& j = *static_cast<const Job*>(data);
        if (j.plan->strips) {
          const uint64_t* bases = j.context->bases + *j.plan->strips * j.context->tensor_count;
          fold_strips(*j.context, bases, j.reduction, j.plan->op, j.plan->dtype, from, to);
        } else {
          fold_slots(*j.context, j.reduction, j.plan->op, j.plan->dtype, *j.parts, from, to);
        }
      },
      &job);
}

void CpuKernel::finish(const abi::Context& context) const noexcept {
  FpEnvGuard guard;
  finish_(&context);
}

}  // namespace stepfuse
