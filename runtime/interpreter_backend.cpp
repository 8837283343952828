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

  void attach(const Schedule& schedule, const StepTables&, const DeviceBlock& block) override {
    program_ = schedule.program;
    block_ = block;
    reports_ = HostReports(program_, block.states);
  }

  void run(const RunInputs& in, int, StatsRing& ring) override {
    StepData data = gather(in);
    interpret(program_, data);
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
  void observe(const RunInputs&, uint32_t, uint32_t) override {}
  void fold_observed(const RunInputs&) override {}
  void collect(StatsRing&, bool, Stream) override {}

 private:
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
  DeviceBlock block_;
  HostReports reports_;
};

}  // namespace

std::unique_ptr<Backend> make_interpreter_backend() {
  return std::make_unique<InterpreterBackend>();
}

}  // namespace stepfuse
