// The CPU as a device: LLVM compiles the kernel and oneTBB's threads run it. Knows the CPU kernel and the
// backend interface.
#include "runtime/cpu/cpu_backend.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "compiler/llvm/emit.hpp"
#include "runtime/caches/disk_cache.hpp"
#include "runtime/caches/kernel_folder.hpp"
#include "runtime/caches/process_cache.hpp"
#include "runtime/caches/variant_key.hpp"
#include "runtime/cpu/compile_or_keep.hpp"
#include "runtime/cpu/cpu_kernel.hpp"
#include "runtime/cpu/host_context.hpp"
#include "runtime/cpu/llvm_facts.hpp"
#include "runtime/device/host_reports.hpp"

namespace stepfuse {
namespace {

class CpuBackend final : public Backend {
 public:
  explicit CpuBackend(const Device& device) : level_(device.level()), executor_(device.threads()) {}

  std::shared_ptr<DeviceMemory> memory() override { return memory_; }

  void prepare(const Variant& variant, bool, CompileReport& report) override {
    require_runnable(level_);
    if (take_shipped(variant, report)) return;
    const LlvmFacts& llvm = llvm_facts();
    if (std::string problem = not_shipped(variant, level_);
        llvm.version.empty() && !problem.empty()) {
      throw Error(ErrorKind::device, llvm_status().problem + problem);
    }
    CpuTarget target = level_ == "host" && !llvm.version.empty() ? llvm.host : cpu_target(level_);
    CpuCode code = cpu_code_from_environment();
    std::string key = variant_key(
        variant, fmt::format("cpu {} {} {} bits, LLVM {}, {}", target.cpu, target.features,
                             target.vector_bits, llvm.version, llvm_passes(code)));
    kernel_ = cpu_variants().get(
        key, [&] { return make_kernel(variant, target, level_, code, key, report); },
        &report.from_memory_cache);
    report.key = std::move(key);
  }

  void attach(const Variant& variant, const StepTables& tables, const DeviceBlock& block) override {
    context_ = HostContext(tables, block);
    reports_ = HostReports(variant.plan, block.states, tables);
  }

  void run(const RunInputs& in, int first_phase, StatsRing& ring) override {
    kernel_->run(context_.of(in), executor_, first_phase);
    reports_.push(in.index, ring);
  }
  void observe(const RunInputs& in, uint32_t begin, uint32_t end) override {
    kernel_->run_chunks(context_.of(in), executor_, 0, begin, end);
  }
  void finish_observing(const RunInputs& in, uint32_t begin, uint32_t end) override {
    const abi::Context& context = context_.of(in);
    kernel_->run_chunks(context, executor_, 0, begin, end);
    kernel_->fold(context, executor_, 0);
  }
  void run_phases(const RunInputs& in, int first, int end) override {
    const abi::Context& context = context_.of(in);
    for (int p = first; p < end; ++p) {
      kernel_->run_chunks(context, executor_, p, 0, context.chunk_count);
      kernel_->fold(context, executor_, p);
    }
  }
  void collect(StatsRing&, bool, Stream) override {}  // run() has finished all work when it returns

 private:
  // Takes a kernel compiled ahead of time, for the best level that this processor and the device allow.
  bool take_shipped(const Variant& variant, CompileReport& report) {
    std::vector<std::string> targets = shipped_targets();
    if (targets.empty()) return false;
    std::vector<std::string> levels = runnable_cpu_levels();
    for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
      if (level_ != "host" && level_ != *level) continue;
      if (std::find(targets.begin(), targets.end(), *level) == targets.end()) continue;
      std::string key =
          shipped_preimage(variant, *level, "", emit_llvm(variant.plan, cpu_target(*level)));
      auto object = find_shipped(*level, key);
      if (!object) continue;
      try {
        kernel_ = cpu_variants().get(
            key, [&] { return CpuKernel::load(*object, variant.plan); }, &report.from_memory_cache);
      } catch (const Error&) {
        continue;  // the entry is intact but does not load here; that of a different level may
      }
      report.from_kernel_folder = true;
      report.load_ms = kernel_->load_ms();
      report.key = std::move(key);
      return true;
    }
    return false;
  }

  static std::shared_ptr<const CpuKernel> make_kernel(const Variant& variant,
                                                      const CpuTarget& target,
                                                      const std::string& level, CpuCode code,
                                                      const std::string& key,
                                                      CompileReport& report) {
    using Clock = std::chrono::steady_clock;
    auto start = Clock::now();
    std::string text = emit_llvm(variant.plan, target);
    report.passes_ms += std::chrono::duration<double, std::milli>(Clock::now() - start).count();
    std::string entry = disk_preimage(key, text);
    if (auto object = DiskCache::process().load(entry)) {
      try {
        auto kernel = CpuKernel::load(*object, variant.plan);
        report.from_disk_cache = true;
        report.load_ms = kernel->load_ms();
        return kernel;
      } catch (const Error&) {
        DiskCache::process().remove(entry);
      }
    }
    CpuObject object = compile_or_keep(variant, text, target, level, code);
    report.parse_ms = object.times.parse_ms;
    report.optimize_ms = object.times.passes_ms;
    report.codegen_ms = object.times.codegen_ms;
    auto kernel = CpuKernel::load(object.bytes, variant.plan);
    report.load_ms = kernel->load_ms();
    if (confirm_llvm_facts()) DiskCache::process().store(entry, object.bytes);
    return kernel;
  }

  std::string level_;
  CpuExecutor executor_;
  std::shared_ptr<DeviceMemory> memory_ = std::make_shared<HostMemory>();
  std::shared_ptr<const CpuKernel> kernel_;
  HostContext context_;
  HostReports reports_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const Device& device) {
  return std::make_unique<CpuBackend>(device);
}

}  // namespace stepfuse
