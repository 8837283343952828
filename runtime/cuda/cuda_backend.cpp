// A CUDA device as a backend. A fused step is one cooperative launch; a run does not allocate, lock or
// wait. Knows the kernel, the tables on the device and the backend interface.
#include "runtime/cuda/cuda_backend.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>

#include <fmt/format.h>

#include "runtime/caches/disk_cache.hpp"
#include "runtime/caches/process_cache.hpp"
#include "runtime/caches/variant_key.hpp"
#include "runtime/cuda/cuda_kernel.hpp"
#include "runtime/cuda/device_tables.hpp"
#include "runtime/cuda/last_work.hpp"
#include "runtime/cuda/report_ring.hpp"
#include "runtime/cuda/split.hpp"
#include "runtime/cuda/staging.hpp"
#include "runtime/device/host_reports.hpp"

namespace stepfuse {
namespace {

using namespace cuda;

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const Device& device)
      : context_(std::make_shared<Context>(device.ordinal())),
        memory_(std::make_shared<CudaMemory>(context_)),
        work_(std::make_shared<LastWork>(context_)),
        options_(device.options()) {}

  std::shared_ptr<DeviceMemory> memory() override { return memory_; }
  std::shared_ptr<PendingWork> pending() override { return work_; }

  size_t table_bytes(const KernelPlan& plan, const StepTables& tables) const override {
    return cuda_table_bytes(plan, tables);
  }

  void prepare(const Variant& variant, bool observe, CompileReport& report) override {
    variant_ = &variant;
    kernel_ = split_ = nullptr;
    bool has_barrier = plan::blocks_wait(variant.plan, variant.plan.kernels.front());
    if (!has_barrier) {
      kernel_ = split_ = load(variant, report);
      return;
    }
    // The grid barrier needs all blocks to be resident at the same time.
    bool cooperative = context_->device().cooperative;
    if (observe || !cooperative) load_split(report);
    kernel_ = cooperative ? load(variant, report) : split_;
  }

  void attach(const Variant& variant, const StepTables& tables, const DeviceBlock& block) override {
    Context::Scope scope(*context_);
    wait();  // earlier work uses the old tables and writes the old reports
    std::lock_guard lock(collecting_);
    tables_ = DeviceTables(variant.plan, tables);
    base_ = block.tables;
    std::vector<char> image = tables_.image(tables, *block.plan, block.base, block.states);
    memory_->copy_to_device(base_, image.data(), image.size(), {});
    size_t reports = report_count(variant.plan, tables);
    reports_ = std::make_unique<ReportRing>(context_, reports, kReports);
    size_t most = std::max(tables_.records_bytes(), block.plan->args_bytes);
    staging_ = std::make_unique<Staging>(context_, most);
    passed_args_ = reinterpret_cast<uint64_t*>(block.base + block.plan->passed_args);
    launch_ = tables_.context(base_);
    launch_.reports = reports_->device();
    launch_.report_capacity = reports_->capacity();
    stale_ = true;
    launched_ = false;
  }

  bool in_live_graph() const override { return work_->in_live_graph(); }

  void set_args(const RunInputs& in, uint64_t* block) override {
    Context::Scope scope(*context_);
    if (is_capturing(in.stream)) {
      throw Error(ErrorKind::usage,
                  "set_args() during a capture would set the same arguments at every replay: call "
                  "it before the capture and between replays");
    }
    LastWork::Turn turn(*work_, in.stream.handle, false);
    upload_args(in, block);
  }

  void run(const RunInputs& in, int first_phase, StatsRing&) override {
    Context::Scope scope(*context_);
    if (!launched_) first_index_ = in.index;
    LastWork::Turn turn = begin(in);
    launch_.flags = 0;
    if (in.reduced) roll_up_again(first_phase, in.stream);
    launch_from(in, first_phase);
    launched_ = true;
  }

  void observe(const RunInputs& in, uint32_t begin_chunk, uint32_t end_chunk) override {
    Context::Scope scope(*context_);
    LastWork::Turn turn = begin(in);
    abi::DeviceContext part = launch_;
    tables_.narrow(&part, begin_chunk, end_chunk);
    part.flags = abi::kKeepSlots;
    launch_phase0(part, in.stream);
  }

  void finish_observing(const RunInputs& in, uint32_t begin_chunk, uint32_t end_chunk) override {
    Context::Scope scope(*context_);
    LastWork::Turn turn = begin(in);
    abi::DeviceContext rest = launch_;
    tables_.narrow(&rest, begin_chunk, end_chunk);
    rest.flags = 0;
    launch_phase0(rest, in.stream);
  }

  void run_phases(const RunInputs& in, int first, int end) override {
    Context::Scope scope(*context_);
    LastWork::Turn turn = begin(in);
    launch_.flags = 0;
    CompileReport unused;
    for (const CudaKernel::Entry& entry : load_split(unused)->entries()) {
      bool wanted = entry.phase_count > 0 && entry.first_phase >= first && entry.first_phase < end;
      if (wanted) launch(entry, launch_, in.stream);
    }
  }

  void collect(StatsRing& ring, bool first, Stream stream) override {
    if (first) {
      Context::Scope scope(*context_);
      if (stream != Stream{}) {
        check(driver().cuStreamSynchronize(stream.handle), "cuStreamSynchronize");
      }
      wait();
    }
    // The reading thread writes the ring, which allows one writer at a time.
    std::lock_guard lock(collecting_);
    if (reports_) reports_->collect(ring, first_index_);
  }

 private:
  static constexpr uint32_t kReports = 256;

  // Modules belong to a context, so the key names it.
  std::string in_context(const std::string& key) const {
    return fmt::format("{}context {}\n", key, context_->id());
  }

  std::shared_ptr<const CudaKernel> load(const Variant& variant, CompileReport& report) {
    std::shared_ptr<const CudaKernel> kernel;
    auto take = [&](const StepCode& code) {
      auto make = [&] { return load_code(variant.plan, code, report); };
      try {
        kernel = cuda_variants().get(in_context(code.preimage), make, &report.from_memory_cache);
      } catch (const Error&) {
        return false;  // this driver refuses the code; that of a different target may load
      }
      report.key = code.preimage;
      report.from_kernel_folder = true;
      return true;
    };
    if (find_shipped_code(variant, context_->device().arch, options_, take)) return kernel;
    CodeTarget target = choose_target(context_->device().arch);
    target.options = options_;
    std::string key = variant_key(variant, target.key());
    auto make = [&]() -> std::shared_ptr<const CudaKernel> {
      StepCode code = compile_step(variant, target, key);
      report.passes_ms += code.emit_ms;
      report.codegen_ms += code.compile_ms;
      report.from_disk_cache = code.from_disk;
      if (!code.from_disk) return load_code(variant.plan, code, report);
      try {
        return load_code(variant.plan, code, report);
      } catch (const Error&) {
        // The entry is intact, but the driver refuses it: a different driver made it, for example.
        DiskCache::process().remove(code.preimage);
        code = compile_step(variant, target, key);
        report.codegen_ms += code.compile_ms;
        report.from_disk_cache = false;
        return load_code(variant.plan, code, report);
      }
    };
    kernel = cuda_variants().get(in_context(key), make, &report.from_memory_cache);
    report.key = std::move(key);
    return kernel;
  }

  std::shared_ptr<const CudaKernel> load_code(const KernelPlan& plan, const StepCode& code,
                                              CompileReport& report) const {
    auto start = std::chrono::steady_clock::now();
    auto kernel = std::make_shared<const CudaKernel>(context_, code, plan);
    report.load_ms +=
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    return kernel;
  }

  // Loads the same phases as separate kernels: for observe(), and for devices that cannot run the fused
  // kernel.
  std::shared_ptr<const CudaKernel> load_split(CompileReport& report) {
    if (split_ == nullptr) {
      split_ = load(make_variant(variant_->program, variant_->signatures, Form::split), report);
    }
    return split_;
  }

  bool is_capturing(Stream stream) const {
    int status = 0;
    check(driver().cuStreamIsCapturing(stream.handle, &status), "cuStreamIsCapturing");
    return status != 0;
  }

  // Orders this work behind all earlier work, in the stream, and brings records and arguments to where
  // the kernels read them.
  LastWork::Turn begin(const RunInputs& in) {
    stale_ |= in.tables_changed;
    bool capturing = is_capturing(in.stream);
    if (capturing) check_capture(in);
    LastWork::Turn turn(*work_, in.stream.handle, capturing);
    if (stale_) {
      DeviceTables::write_records(*in.tables, staging_->take());
      staging_->upload(base_ + tables_.records_offset(), tables_.records_bytes(), in.stream);
      stale_ = false;
    }
    if (in.args_block != nullptr) {
      point_at(in.args_block, in.step_arg_count);
    } else {
      pass_args(in);
    }
    return turn;
  }

  // Checks that everything that a capture would freeze into its graph is in place already.
  void check_capture(const RunInputs& in) const {
    if (stale_) {
      throw Error(ErrorKind::usage,
                  "gradients have moved (or other arrays were bound) since the last run and this "
                  "stream is being captured: run once with these addresses before the capture");
    }
    if (in.args_block == nullptr) {
      throw Error(ErrorKind::usage,
                  "arguments given by value would be frozen into the captured graph: use "
                  "set_args() before the capture and between replays, and run() without arguments "
                  "or with DeviceArgs");
    }
  }

  void pass_args(const RunInputs& in) {
    if (in.args.size() > abi::kInlineArgs) {
      upload_args(in, passed_args_);
      point_at(passed_args_, in.step_arg_count);
      return;
    }
    launch_.step.step_args = nullptr;
    launch_.step.group_args = nullptr;
    std::copy(in.args.begin(), in.args.end(), launch_.inline_args);
  }

  void upload_args(const RunInputs& in, uint64_t* block) {
    std::copy(in.args.begin(), in.args.end(), reinterpret_cast<uint64_t*>(staging_->take()));
    if (!in.args.empty()) staging_->upload(block, in.args.size_bytes(), in.stream);
  }

  void point_at(const uint64_t* block, uint32_t step_args) {
    launch_.step.step_args = block;
    launch_.step.group_args = block + step_args;
  }

  void launch_from(const RunInputs& in, int first_phase) {
    if (first_phase > 0) {
      CompileReport unused;
      launch_all(*load_split(unused), first_phase, in.stream);
      return;
    }
    if (launch_all(*kernel_, 0, in.stream)) return;
    // This happens only under a limit that occupancy does not know (MPS). This one run compiles a kernel.
    CompileReport unused;
    kernel_ = load_split(unused);
    launch_all(*kernel_, 0, in.stream);
  }

  // Returns false if the first kernel cannot be resident as a whole on this device, however small its
  // grid is.
  bool launch_all(const CudaKernel& kernel, int first_phase, Stream stream) {
    const auto& entries = kernel.entries();
    for (const CudaKernel::Entry& entry : entries) {
      bool last = entry.kernel == entries.back().kernel;
      if (entry.first_phase < first_phase && !last) continue;
      if (!launch(entry, launch_, stream)) return false;
    }
    return true;
  }

  // Recomputes the rollups of phases [0, end) after the caller has replaced results.
  void roll_up_again(int end, Stream stream) {
    CompileReport unused;
    abi::DeviceContext nothing = launch_;
    tables_.narrow(&nothing, 0, 0);
    nothing.flags = abi::kKeepResults;
    for (const CudaKernel::Entry& entry : load_split(unused)->entries()) {
      if (entry.phase_count == 0 || entry.first_phase >= end) continue;
      if (!variant_->plan.phase(entry.first_phase).rollups.empty()) launch(entry, nothing, stream);
    }
  }

  void launch_phase0(abi::DeviceContext& part, Stream stream) {
    CompileReport unused;
    for (const CudaKernel::Entry& entry : load_split(unused)->entries()) {
      bool folds = (part.flags & abi::kKeepSlots) == 0;
      if (entry.kernel == 0 && (folds || !entry.behind)) launch(entry, part, stream);
    }
  }

  bool launch(const CudaKernel::Entry& entry, abi::DeviceContext& context, Stream stream) {
    unsigned most = std::min(entry.resident, most_blocks_);
    context.split = entry.splits ? best_split(context.block_chunks, tables_.block_elements(), most)
                                 : rows_split(context.block_chunks, most, entry.rows_in_order);
    unsigned units = (context.block_chunks << context.split) + (context.small_count + 7) / 8;
    units = std::max(units, context.part_count);
    if (entry.phase_count == 0) units = 1;
    if (entry.of_members) units = tables_.member_units();
    unsigned grid = std::clamp(units, 1U, most);
    CuLaunchAttribute cooperative;
    cooperative.id = kAttributeCooperative;
    cooperative.value.number = 1;
    CuLaunchConfig config;
    config.block[0] = abi::kBlockThreads;
    config.stream = stream.handle;
    if (entry.cooperative) {
      config.attributes = &cooperative;
      config.attribute_count = 1;
    }
    void* parameters[] = {&context};
    for (;;) {
      config.grid[0] = grid;
      CuResult result = driver().cuLaunchKernelEx(&config, entry.function, parameters, nullptr);
      if (result != kCooperativeLaunchTooLarge) {
        check(result, "cuLaunchKernelEx");
        return true;
      }
      // Something else (MPS, a green context) leaves us fewer multiprocessors than the device has.
      if (grid == 1) return false;
      grid /= 2;
      most_blocks_ = grid;
    }
  }

  std::shared_ptr<Context> context_;
  std::shared_ptr<CudaMemory> memory_;
  std::shared_ptr<LastWork> work_;
  std::string options_;  // the emitter's options
  const Variant* variant_ = nullptr;
  std::shared_ptr<const CudaKernel> kernel_;  // in the requested form
  // One kernel per phase, and the launches behind the phases.
  std::shared_ptr<const CudaKernel> split_;
  DeviceTables tables_;
  char* base_ = nullptr;
  uint64_t* passed_args_ = nullptr;
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<ReportRing> reports_;
  abi::DeviceContext launch_{};
  std::mutex collecting_;  // held while reports go into the ring
  unsigned most_blocks_ = ~0U;
  bool stale_ = true;  // the host's records are newer than the device's
  bool launched_ = false;
  std::atomic<uint64_t> first_index_{0};  // index of the step with the first report
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const Device& device) {
  return std::make_unique<CudaBackend>(device);
}

std::shared_ptr<DeviceMemory> make_cuda_memory(const Device& device) {
  return std::make_shared<CudaMemory>(std::make_shared<Context>(device.ordinal()));
}

size_t cuda_table_bytes(const KernelPlan& plan, const StepTables& tables) {
  return DeviceTables(plan, tables).bytes();
}

VariantCache<CudaKernel>& cuda_variants() {
  // The cache is leaked on purpose: the driver may be gone when static objects are destroyed. It is
  // bounded, because each kernel takes memory on the device.
  static auto* cache = new VariantCache<CudaKernel>(256);
  return *cache;
}

}  // namespace stepfuse
