// The interpreter as a device, for tests and for bisecting a bad run. Knows ir and the backend interface.
// Unlike the other backends it allocates while it runs.
#include "runtime/device/interpreter_backend.hpp"

#include <string>

#include "ir/semantics/interpreter.hpp"
#include "runtime/device/host_reports.hpp"

namespace stepfuse {
namespace {

class InterpreterBackend final : public Backend {
 public:
  InterpreterBackend(std::shared_ptr<DeviceMemory> memory, bool is_host)
      : memory_(std::move(memory)), is_host_(is_host) {}

  std::shared_ptr<DeviceMemory> memory() override { return memory_; }
  void prepare(const Variant&, bool, CompileReport& report) override { report.key = "interpreter"; }

  void attach(const Variant& variant, const StepTables&, const DeviceBlock& block) override {
    variant_ = &variant;
    block_ = block;
    raw_reports_.clear();
  }

  void set_args(const RunInputs& in, uint64_t* block) override {
    require_uncaptured(in.stream);
    memory_->copy_to_device(block, in.args.data(), in.args.size_bytes(), in.stream);
  }

  void run(const RunInputs& in, int, StatsRing& ring) override {
    StepData data = gather(in);
    interpret(program(), data, in.reduced ? stored_partials(in) : std::vector<Reduced>());
    scatter(in, data);
    raw_reports_.clear();
    for (size_t s = 0; s < plan().states.size(); ++s) {
      write(block_.states[s], data.states[s], plan().states[s].dtype, in.stream);
    }
    for (int32_t s : plan().finish.reports) {
      for (Bits v : data.states[static_cast<size_t>(s)]) raw_reports_.push_back(v.raw);
    }
    ring.push(in.index, raw_reports_.data());
  }
  void run_phases(const RunInputs& in, int, int) override {
    StepData data = gather(in);
    std::vector<Reduced> partials;
    for (size_t i : block_.plan->partials)
      partials.push_back({.value = plan().reductions[i].value});
    interpret_reductions(program(), data, partials);
    for (size_t k = 0; k < partials.size(); ++k) {
      size_t i = block_.plan->partials[k];
      DType d = plan().reductions[i].dtype;
      write(block_.base + block_.plan->results[i], partials[k].results, d, in.stream);
      write(block_.base + block_.plan->slots[i], partials[k].pieces, d, in.stream);
    }
  }
  // The interpreter has no phases: it reduces everything when the step runs.
  void observe(const RunInputs&, uint32_t, uint32_t) override {}
  void finish_observing(const RunInputs&, uint32_t, uint32_t) override {}
  void collect(StatsRing&, bool, Stream) override {}

 private:
  void require_uncaptured(Stream stream) const {
    if (is_host_ || !memory_->is_capturing(stream)) return;
    throw Error(ErrorKind::usage,
                "STEPFUSE_FORM=interpret runs steps on the host, and a graph cannot: run without "
                "capturing");
  }

  const Program& program() const { return variant_->program; }
  const KernelPlan& plan() const { return variant_->plan; }
  static size_t members_of(Granularity d, const RunInputs& in) {
    return member_count(d, *in.tables);
  }

  void write(void* to, const std::vector<Bits>& values, DType d, Stream stream) const {
    std::vector<char> bytes(values.size() * size_of(d));
    for (size_t m = 0; m < values.size(); ++m) store_bits(&bytes[m * size_of(d)], d, values[m]);
    memory_->copy_to_device(to, bytes.data(), bytes.size(), stream);
  }
  std::vector<Bits> read(const void* from, size_t count, DType d, Stream stream) const {
    std::vector<char> bytes(count * size_of(d));
    memory_->copy_to_host(bytes.data(), from, bytes.size(), stream);
    std::vector<Bits> values;
    for (size_t m = 0; m < count; ++m) values.push_back(load_bits(&bytes[m * size_of(d)], d));
    return values;
  }
  std::vector<Reduced> stored_partials(const RunInputs& in) const {
    std::vector<Reduced> out;
    for (size_t i : block_.plan->partials) {
      const plan::Reduction& r = plan().reductions[i];
      out.push_back({.value = r.value,
                     .results = read(block_.base + block_.plan->results[i], members_of(r.to, in),
                                     r.dtype, in.stream)});
    }
    return out;
  }

  StepData gather(const RunInputs& in) {
    require_uncaptured(in.stream);
    StepData data;
    const StepTables& tables = *in.tables;
    copies_.assign(tables.tensors.size() * tables.buffer_count, {});
    for (size_t t = 0; t < tables.tensors.size(); ++t) {
      const abi::Tensor& tensor = tables.tensors[t];
      StepTensor out{.size = tensor.size,
                     .offset = tensor.offset,
                     .full_size = tensor.full_size,
                     .columns = tensor.columns,
                     .id = tensor.id};
      out.group = static_cast<int32_t>(tensor.group);
      out.present = (tensor.flags & abi::kPresent) != 0;
      for (size_t b = 0; b < tables.buffer_count; ++b) out.data.push_back(array(in, t, b));
      out.dtypes = tables.signatures[tables.signature_of[t]];
      data.tensors.push_back(std::move(out));
    }
    gather_args(in, data);
    for (size_t s = 0; s < plan().states.size(); ++s) {
      const plan::State& state = plan().states[s];
      data.states.push_back(
          read(block_.states[s], members_of(state.at, in), state.dtype, in.stream));
    }
    return data;
  }

  // Returns the address at which the host finds the array.
  void* array(const RunInputs& in, size_t tensor, size_t buffer) {
    void* p = in.tables->pointer(tensor, buffer);
    if (is_host_ || p == nullptr) return p;
    std::string& copy = copies_[tensor * in.tables->buffer_count + buffer];
    const abi::Tensor& spec = in.tables->tensors[tensor];
    copy.resize(variant_->program.buffers[buffer].count(spec.size, spec.columns) *
                size_of(in.tables->dtype(tensor, buffer)));
    memory_->copy_to_host(copy.data(), p, copy.size(), in.stream);
    return copy.data();
  }
  void scatter(const RunInputs& in, const StepData& data) const {
    if (is_host_) return;
    for (size_t t = 0; t < data.tensors.size(); ++t) {
      for (size_t b = 0; b < in.tables->buffer_count; ++b) {
        const std::string& copy = copies_[t * in.tables->buffer_count + b];
        if (program().buffers[b].access == Access::in || !data.tensors[t].present) continue;
        memory_->copy_to_device(in.tables->pointer(t, b), copy.data(), copy.size(), in.stream);
      }
    }
  }

  void gather_args(const RunInputs& in, StepData& data) const {
    const ArgLayout& layout = plan().args;
    data.group_count = static_cast<int32_t>(in.group_count);
    std::vector<uint64_t> words(in.args.begin(), in.args.end());
    if (in.args_block != nullptr) {
      words.resize(layout.words(in.group_count, in.tables->tensors.size()));
      memory_->copy_to_host(words.data(), in.args_block, words.size() * sizeof(uint64_t),
                            in.stream);
    }
    for (size_t a = 0; a < program().args.size(); ++a) {
      const Type& type = program().args[a].type;
      std::vector<Bits>& values = data.args.emplace_back();
      for (size_t m = 0; m < members_of(type.at, in); ++m) {
        values.push_back(load_bits(&words[layout.word(a, m, in.group_count)], type.dtype));
      }
    }
  }

  std::shared_ptr<DeviceMemory> memory_;
  bool is_host_;
  const Variant* variant_ = nullptr;
  DeviceBlock block_;
  std::vector<std::string> copies_;  // [tensor * buffers + buffer] copies of a device's arrays
  std::vector<uint64_t> raw_reports_;
};

}  // namespace

std::unique_ptr<Backend> make_interpreter_backend(std::shared_ptr<DeviceMemory> memory,
                                                  bool is_host) {
  return std::make_unique<InterpreterBackend>(std::move(memory), is_host);
}

}  // namespace stepfuse
