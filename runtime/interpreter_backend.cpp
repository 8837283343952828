// The interpreter as a device: for tests and for bisecting a bad run. Knows ir and the backend
// interface. Unlike the others it allocates while it runs.
#include "runtime/interpreter_backend.hpp"

#include "ir/interpreter.hpp"
#include "runtime/host_reports.hpp"

namespace stepfuse {
namespace {

class InterpreterBackend final : public Backend {
 public:
  std::shared_ptr<DeviceMemory> memory() override { return memory_; }
  void prepare(const Schedule&, bool, CompileReport& report) override {
    report.key = "interpreter";
  }

  void attach(const Schedule& schedule, const StepTables& tables,
              const DeviceBlock& block) override {
    program_ = schedule.program;
    reductions_ = schedule.reductions;
    tensor_count_ = tables.tensors.size();
    group_count_ = 1;
    for (const abi::Tensor& t : tables.tensors) {
      group_count_ = std::max<size_t>(group_count_, t.group + 1);
    }
    block_ = block;
    reports_ = HostReports(program_, block.states);
  }

  void run(const RunInputs& in, int, StatsRing& ring) override {
    StepData data = gather(in);
    interpret(program_, data, in.reduced ? stored_partials() : std::vector<Reduced>());
    for (size_t s = 0; s < program_.states.size(); ++s) {
      DType d = program_.states[s].type.dtype;
      char* p = static_cast<char*>(block_.states[s]);
      for (size_t i = 0; i < data.states[s].size(); ++i) {
        store_bits(p + i * size_of(d), d, data.states[s][i]);
      }
    }
    reports_.push(in.index, ring);
  }
  // The interpreter has no phases: it reduces everything when the step runs.
  void run_phases(const RunInputs& in, int, int) override {
    StepData data = gather(in);
    std::vector<Reduced> partials;
    for (size_t i : block_.plan->partials) partials.push_back({.value = reductions_[i]});
    interpret_reductions(program_, data, partials);
    for (size_t k = 0; k < partials.size(); ++k) {
      size_t i = block_.plan->partials[k];
      store(partials[k].results, block_.plan->results[i], type_of(i).dtype);
      store(partials[k].pieces, block_.plan->slots[i], type_of(i).dtype);
    }
  }
  void observe(const RunInputs&, uint32_t, uint32_t) override {}
  void fold_observed(const RunInputs&) override {}
  void collect(StatsRing&, bool, Stream) override {}

 private:
  const Type& type_of(size_t reduction) const { return program_[reductions_[reduction]].type; }
  void store(const std::vector<Bits>& values, size_t at, DType d) const {
    for (size_t m = 0; m < values.size(); ++m) {
      store_bits(block_.base + at + m * size_of(d), d, values[m]);
    }
  }
  std::vector<Reduced> stored_partials() const {
    std::vector<Reduced> out;
    for (size_t i : block_.plan->partials) {
      Reduced r{.value = reductions_[i]};
      DType d = type_of(i).dtype;
      for (size_t m = 0; m < members_of(type_of(i).domain); ++m) {
        r.results.push_back(load_bits(block_.base + block_.plan->results[i] + m * size_of(d), d));
      }
      out.push_back(std::move(r));
    }
    return out;
  }
  size_t members_of(Domain d) const {
    return d == Domain::step ? 1 : d == Domain::group ? group_count_ : tensor_count_;
  }

  StepData gather(const RunInputs& in) const {
    StepData data;
    const StepTables& tables = *in.tables;
    for (size_t t = 0; t < tables.tensors.size(); ++t) {
      const abi::Tensor& tensor = tables.tensors[t];
      StepTensor out{.size = tensor.size, .offset = tensor.offset};
      out.group = static_cast<int32_t>(tensor.group);
      out.present = (tensor.flags & abi::kPresent) != 0;
      for (size_t b = 0; b < tables.buffer_count; ++b) out.data.push_back(tables.pointer(t, b));
      out.dtypes = tables.signatures[tables.signature_of[t]];
      data.tensors.push_back(std::move(out));
    }
    gather_args(in, data);
    gather_states(data);
    return data;
  }

  void gather_args(const RunInputs& in, StepData& data) const {
    size_t group_args = 0;
    for (const Arg& a : program_.args) group_args += a.type.domain == Domain::group ? 1U : 0U;
    data.group_count = static_cast<int32_t>(in.group_count);
    size_t step_index = 0;
    size_t group_index = 0;
    for (const Arg& a : program_.args) {
      std::vector<Bits> values;
      if (a.type.domain == Domain::group) {
        for (size_t g = 0; g < static_cast<size_t>(data.group_count); ++g) {
          values.push_back({in.host_group_args()[g * group_args + group_index]});
        }
        ++group_index;
      } else {
        values.push_back({in.host_step_args()[step_index++]});
      }
      data.args.push_back(std::move(values));
    }
  }

  void gather_states(StepData& data) const {
    for (size_t s = 0; s < program_.states.size(); ++s) {
      const Type& t = program_.states[s].type;
      size_t count = t.domain == Domain::step    ? 1
                     : t.domain == Domain::group ? static_cast<size_t>(data.group_count)
                                                 : data.tensors.size();
      const char* p = static_cast<const char*>(block_.states[s]);
      std::vector<Bits> values;
      for (size_t i = 0; i < count; ++i)
        values.push_back(load_bits(p + i * size_of(t.dtype), t.dtype));
      data.states.push_back(std::move(values));
    }
  }

  std::shared_ptr<DeviceMemory> memory_ = std::make_shared<HostMemory>();
  Program program_;
  std::vector<ValueId> reductions_;
  size_t tensor_count_ = 0, group_count_ = 1;
  DeviceBlock block_;
  HostReports reports_;
};

}  // namespace

std::unique_ptr<Backend> make_interpreter_backend() {
  return std::make_unique<InterpreterBackend>();
}

}  // namespace stepfuse
