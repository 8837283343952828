// Tables, workspace and launches of a step on the PTX machine. Knows the kernel ABI.
#include "tests/ptx/device_runner.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>

#include <fmt/format.h>

#include "compiler/abi.hpp"
#include "compiler/cuda/emit.hpp"
#include "runtime/cuda/device_tables.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "runtime/tables/workspace.hpp"
#include "tests/support/tables.hpp"

namespace stepfuse::testing {
namespace {

using ptx::u64;

// The arrays of one run on the device.
class Device {
 public:
  Device(ptx::Machine& machine, const Variant& variant, const StepData& data,
         const DeviceRun& options)
      : memory_(machine.memory()), s_(variant), p_(variant.program), options_(options) {
    place_tables(data);
    place_args(data);
    place_states(data);
    place_workspace();
    if (options.reports != nullptr) {
      std::vector<uint64_t>& reports = options.reports->memory();
      memory_.map_host(reports.data(), reports.size() * sizeof(uint64_t));
      c_.reports = reports.data();
      c_.report_capacity = options.reports->capacity();
    }
    c_.sync = upload<abi::Sync>({abi::Sync{}}, "the sync words");
    c_.split = options.split;
  }

  const abi::DeviceContext& context() const { return c_; }

  // The context of a launch over one tensor's chunks, without a fold.
  abi::DeviceContext only(size_t tensor) const {
    abi::DeviceContext c = c_;
    split_.narrow(&c, tables_.first_chunk[tensor], tables_.first_chunk[tensor + 1]);
    c.flags = abi::kKeepSlots;
    return c;
  }
  // The context of a launch over no chunks, which folds the slots.
  abi::DeviceContext fold_only() const {
    abi::DeviceContext c = c_;
    c.block_chunks = c.small_count = c.part_count = 0;
    return c;
  }

  // A tensor's gradient; empty if the step has none.
  std::pair<u64, u64> gradient(const StepData& data, size_t t) const {
    int b = p_.find_buffer("grad");
    if (b < 0) return {0, 0};
    auto buffer = static_cast<size_t>(b);
    u64 width = size_of(data.tensors[t].dtypes[buffer]);
    u64 at = address(t, buffer) + options_.skip_elements * width;
    return {at, data.tensors[t].size * width};
  }

  void download(StepData& data) {
    for (size_t t = 0; t < data.tensors.size(); ++t) {
      StepTensor& tensor = data.tensors[t];
      for (size_t b = 0; b < p_.buffers.size(); ++b) {
        size_t width = size_of(tensor.dtypes[b]);
        u64 at = address(t, b) +
                 p_.buffers[b].count(options_.skip_elements, tensor.column_count()) * width;
        memory_.read(tensor.data[b], at,
                     p_.buffers[b].count(tensor.size, tensor.column_count()) * width);
      }
    }
    for (size_t s = 0; s < p_.states.size(); ++s) {
      DType d = p_.states[s].type.dtype;
      std::vector<std::byte> bytes(data.states[s].size() * size_of(d));
      memory_.read(bytes.data(), states_[s], bytes.size());
      for (size_t i = 0; i < data.states[s].size(); ++i) {
        data.states[s][i] = load_bits(bytes.data() + i * size_of(d), d);
      }
    }
  }

 private:
  template <class T>
  T* upload(const std::vector<T>& values, const std::string& name) {
    u64 at = memory_.allocate(values.size() * sizeof(T), name);
    memory_.write(at, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<T*>(at);
  }
  void* const* upload_pointers(const std::vector<u64>& values, const std::string& name) {
    return reinterpret_cast<void* const*>(upload(values, name));
  }

  u64 place_array(const StepTensor& tensor, size_t t, size_t b) {
    size_t width = size_of(tensor.dtypes[b]);
    size_t shift = t < options_.shifts.size() ? options_.shifts[t] * width : 0;
    u64 skipped = p_.buffers[b].count(options_.skip_elements, tensor.column_count()) * width;
    u64 bytes = p_.buffers[b].count(tensor.size, tensor.column_count()) * width;
    u64 base = memory_.allocate(shift + skipped + bytes,
                                fmt::format("@{} of tensor {}", p_.buffers[b].name, t)) +
               shift;
    memory_.write(base + skipped, tensor.data[b], bytes);
    // The old content of a write-only buffer must not be read.
    // A step that is skipped stores nothing, and arranges what the caller's array has.
    bool is_arranged = std::any_of(p_.buffers.begin(), p_.buffers.end(), [&](const Buffer& other) {
      return other.order.any() && other.arranges == static_cast<int32_t>(b);
    });
    bool is_out = p_.buffers[b].access == Access::out && !is_arranged;
    if (is_out) memory_.forget(base + skipped, bytes);
    return base;
  }

  u64 address(size_t tensor, size_t buffer) const {
    return reinterpret_cast<u64>(tables_.pointer(tensor, buffer));
  }

  // The runtime's tables. Each has its own allocation, so that a read beyond its end is noticed.
  void place_tables(const StepData& data) {
    tables_ = tables_of(s_, data);
    for (size_t t = 0; t < data.tensors.size(); ++t) {
      for (size_t b = 0; b < p_.buffers.size(); ++b) {
        tables_.pointer(t, b) = reinterpret_cast<void*>(place_array(data.tensors[t], t, b));
      }
    }
    split_ = cuda::DeviceTables(s_.plan, tables_);
    std::vector<char> image = split_.image(tables_, {}, nullptr, {});
    c_ = split_.context(image.data());
    auto move = [&](auto*& table, size_t count, const std::string& name) {
      table = upload(std::vector(table, table + count), name);
    };
    auto move_chunks = [&](const abi::Chunk*& table, size_t count, const std::string& name) {
      std::vector<abi::Chunk> chunks(table, table + count);
      for (abi::Chunk& chunk : chunks) chunk.begin += options_.skip_elements;
      table = upload(chunks, name);
    };
    move_chunks(c_.step.chunks, c_.block_chunks, "the chunk table");
    move_chunks(c_.small_chunks, c_.small_count, "the table of small chunks");
    move_chunks(c_.parts, c_.part_count, "the table of parts");
    move(c_.step.tensors, c_.step.tensor_count, "the tensor table");
    move(c_.step.pointers, tables_.pointers.size(), "the pointer table");
    move(c_.step.bases, tables_.bases.size(), "the table of bases");
    for (size_t i = 0; i < abi::kPartitions; ++i) {
      abi::Partition& p = c_.step.parts[i];
      const Partition& from = tables_.parts[i];
      if (p.members != nullptr) move(p.members, from.members.size(), fmt::format("members {}", i));
      move(p.begin, from.begin.size(), fmt::format("parts {}", i));
    }
  }

  void place_args(const StepData& data) {
    std::vector<uint64_t> words = arg_words(s_, data);
    if (options_.inline_args && words.size() <= abi::kInlineArgs) {
      std::copy(words.begin(), words.end(), c_.inline_args);
      return;
    }
    auto rows = words.begin() + s_.plan.args.step_words;
    c_.step.step_args = upload(std::vector(words.begin(), rows), "the step's arguments");
    c_.step.group_args = upload(std::vector(rows, words.end()), "the groups' arguments");
  }

  void place_states(const StepData& data) {
    for (size_t s = 0; s < p_.states.size(); ++s) {
      DType d = p_.states[s].type.dtype;
      std::vector<std::byte> bytes(data.states[s].size() * size_of(d));
      for (size_t i = 0; i < data.states[s].size(); ++i) {
        store_bits(bytes.data() + i * size_of(d), d, data.states[s][i]);
      }
      auto* at = upload(bytes, fmt::format("state @{}", p_.states[s].name));
      states_.push_back(reinterpret_cast<u64>(at));
    }
    c_.step.states = upload_pointers(states_, "the state table");
  }

  u64 place_fresh(u64 bytes, const std::string& name) {
    u64 at = memory_.allocate(bytes, name);
    if (options_.zero_workspace) memory_.fill(at, bytes, 0, 1);
    return at;
  }

  void place_workspace() {
    std::vector<u64> slots, results, scratch;
    for (const plan::Reduction& r : s_.plan.reductions) {
      size_t from = slot_count(r, tables_);
      size_t width = size_of(r.dtype), k = slots.size();
      slots.push_back(place_fresh(from * width, fmt::format("slots {}", k)));
      results.push_back(
          place_fresh(member_count(r.to, tables_) * width, fmt::format("results {}", k)));
    }
    for (const plan::Array& a : s_.plan.arrays) {
      if (!a.scratch()) continue;
      scratch.push_back(
          place_fresh(tables_.scratch_elements * a.max_bytes, fmt::format("scratch {}", a.index)));
    }
    c_.step.slots = upload_pointers(slots, "the slot table");
    c_.step.results = upload_pointers(results, "the result table");
    c_.step.scratch = upload_pointers(scratch, "the scratch table");
  }

  ptx::Memory& memory_;
  const Variant& s_;
  const Program& p_;
  const DeviceRun& options_;
  abi::DeviceContext c_{};
  StepTables tables_;
  cuda::DeviceTables split_;
  std::vector<u64> states_;
};

// Phase 0 for single tensors before the step. Then, as in the step, phase 0 for the other tensors,
// and the fold.
void observe(ptx::Memory& memory, const Device& device, const StepData& data,
             const std::vector<Observation>& observations,
             const std::function<void(const abi::DeviceContext&)>& launch) {
  std::vector<bool> seen(data.tensors.size());
  for (const Observation& o : observations) {
    auto [at, bytes] = device.gradient(data, o.tensor);
    std::vector<std::byte> kept(bytes);
    memory.read(kept.data(), at, bytes);
    // NaN in every float type, so that any trace of stale data spreads.
    if (o.stale) memory.fill(at, bytes, 0xff, 1);
    launch(device.only(o.tensor));
    if (o.stale) memory.write(at, kept.data(), bytes);
    seen[o.tensor] = !o.stale;
  }
  for (size_t t = 0; t < seen.size(); ++t) {
    if (!seen[t]) launch(device.only(t));
  }
  launch(device.fold_only());
}

}  // namespace

const std::string& compile_to_ptx(const std::string& text, int arch) {
  static std::mutex mutex;
  static std::map<std::pair<int, std::string>, std::string> compiled;
  std::lock_guard lock(mutex);
  std::string& ptx = compiled[{arch, text}];
  if (ptx.empty()) {
    ptx = cuda::nvrtc_compile({.text = text, .arch = arch, .kind = cuda::CodeKind::ptx}).code;
  }
  return ptx;
}

DeviceRunner::DeviceRunner(Variant variant, const std::string& text, int arch)
    : variant_(std::move(variant)), ptx_(compile_to_ptx(text, arch)) {}

ReportReader::ReportReader(const KernelPlan& plan, uint32_t capacity)
    : width_(1), capacity_(capacity) {
  for (int32_t s : plan.finish.reports) width_ += plan.state(s).at == per::step;
  memory_.assign(width_ * capacity, 0);
}

ptx::HostReader ReportReader::reader() {
  return {reinterpret_cast<u64>(memory_.data()), [this](ptx::HostView& host) { step(host); }};
}

void ReportReader::step(ptx::HostView& host) {
  u64 record = reinterpret_cast<u64>(memory_.data() + next_ % capacity_ * width_);
  if (at_ == 0) {
    host.drop();
    number_ = host.load_acquire(record);
    if (number_ > next_ + 1) next_ = number_ - 1;  // earlier ones are gone
    values_.clear();
    at_ = number_ == next_ + 1 ? 1 : 0;
  } else if (at_ < width_) {
    values_.push_back(host.load_relaxed(record + 8 * at_++));
  } else {
    at_ = 0;
    if (host.load_relaxed(record) != number_) return;
    host.keep();
    kept_[next_++] = values_;
  }
}

ptx::Counters DeviceRunner::run(StepData& data, const DeviceRun& options) const {
  ptx::Machine machine;
  auto module = machine.load(ptx_);
  Device device(machine, variant_, data, options);
  ptx::HostReader host;
  if (options.reports != nullptr) host = options.reports->reader();
  ptx::Counters total;
  uint64_t seed = options.seed;
  auto launch_one = [&](const std::string& name, const abi::DeviceContext& context) {
    const ptx::Kernel* kernel = module->find(name);
    if (kernel == nullptr) throw std::runtime_error("the module has no kernel " + name);
    auto counters = machine.launch(
        *kernel, {.grid = {options.blocks}, .block = {256}, .cooperative = options.cooperative},
        std::as_bytes(std::span(&context, 1)),
        {.seed = seed++,
         .step_limit = options.step_limit,
         .checks = options.checks,
         .incoherent = options.incoherent,
         .host = options.reports != nullptr ? &host : nullptr});
    total.instructions += counters.instructions;
    total.global_bytes_read += counters.global_bytes_read;
    total.global_bytes_written += counters.global_bytes_written;
    total.barriers += counters.barriers;
    total.atomics += counters.atomics;
    total.prefetches += counters.prefetches;
  };
  auto launch = [&](const plan::Kernel& kernel, const abi::DeviceContext& context) {
    bool folds = (context.flags & abi::kKeepSlots) == 0;
    int32_t behind = folds ? plan::launches_behind(variant_.plan, kernel) : 0;
    for (int32_t n = 0; n <= behind; ++n) launch_one(cuda_entry_name(kernel.name, n), context);
  };
  const std::vector<plan::Kernel>& kernels = variant_.plan.kernels;
  for (int step = 0; step < options.steps; ++step) {
    size_t next = 0;
    if (!options.observed.empty()) {
      observe(machine.memory(), device, data, options.observed,
              [&](const abi::DeviceContext& context) { launch(kernels[0], context); });
      next = 1;
    }
    for (; next < kernels.size(); ++next) launch(kernels[next], device.context());
  }
  device.download(data);
  return total;
}

}  // namespace stepfuse::testing
