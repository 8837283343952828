// Compiles and runs CPU kernels. Knows the CPU kernel and its tables.
#include "tests/support/kernel_runner.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "ir/semantics/interpreter.hpp"
#include "runtime/cpu/host_context.hpp"
#include "tests/support/tables.hpp"

namespace stepfuse::testing {
namespace {

std::vector<Signature> distinct_signatures(const StepData& data) {
  std::vector<Signature> result;
  for (const StepTensor& t : data.tensors) {
    if (std::find(result.begin(), result.end(), t.dtypes) == result.end()) {
      result.push_back(t.dtypes);
    }
  }
  return result;
}

// Compiles each text once for a level: many tests run one kernel on different data.
CpuObject compiled_once(const std::string& text, const std::string& level) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, CpuObject> objects;
  {
    std::lock_guard lock(mutex);
    if (auto at = objects.find({level, text}); at != objects.end()) return at->second;
  }
  CpuObject object = compile_cpu(text, cpu_target(level));
  std::lock_guard lock(mutex);
  return objects.try_emplace({level, text}, std::move(object)).first->second;
}

}  // namespace

KernelRunner::KernelRunner(const Program& program, const StepData& data,
                           const RunnerOptions& options) {
  std::vector<Signature> signatures = distinct_signatures(data);
  Program p = options.optimize ? optimize(program, signatures) : program;
  variant_ = make_variant(p, signatures, options.form);
  text_ = emit_llvm(variant_.plan, cpu_target(options.level));
  object_ = compiled_once(text_, options.level);
  kernel_ = CpuKernel::load(object_.bytes, variant_.plan);
}

KernelRunner::KernelRunner(Variant variant, std::string text, const CpuTarget& target, CpuCode code)
    : variant_(std::move(variant)), text_(std::move(text)) {
  object_ = compile_cpu(text_, target, code);
  kernel_ = CpuKernel::load(object_.bytes, variant_.plan);
}

void KernelRunner::run(StepData& data, const CpuExecutor& executor) const {
  run_on_tables(variant_, data,
                [&](const abi::Context& context) { kernel_->run(context, executor); });
}

void run_on_tables(const Variant& variant, StepData& data,
                   const std::function<void(const abi::Context&)>& run) {
  StepTables tables = tables_of(variant, data);
  for (size_t t = 0; t < data.tensors.size(); ++t) {
    for (size_t b = 0; b < tables.buffer_count; ++b) tables.pointer(t, b) = data.tensors[t].data[b];
  }
  std::vector<uint64_t> args = arg_words(variant, data);
  WorkspacePlan plan = plan_workspace(variant.plan, tables);
  struct alignas(64) Line {
    uint64_t words[8];
  };
  // Filled with nonsense: everything must be written before it is read.
  constexpr uint64_t kNonsense = 0x7fc1234598765432;
  Line line;
  std::fill(std::begin(line.words), std::end(line.words), kNonsense);
  std::vector<Line> memory(plan.bytes / sizeof(Line) + 1, line);
  std::vector<std::vector<Line>> states;  // those of a LossScaler stand elsewhere
  DeviceBlock block{.plan = &plan, .base = reinterpret_cast<char*>(memory.data())};
  auto each_state = [&](auto&& f) {
    for (size_t s = 0; s < data.states.size(); ++s) {
      DType d = variant.plan.states[s].dtype;
      for (size_t i = 0; i < data.states[s].size(); ++i) {
        f(static_cast<char*>(block.states[s]) + i * size_of(d), d, data.states[s][i]);
      }
    }
  };
  for (const std::vector<Bits>& values : data.states) {
    states.emplace_back(values.size() * 8 / sizeof(Line) + 1, line);
    block.states.push_back(states.back().data());
  }
  each_state([](char* at, DType d, Bits& value) { store_bits(at, d, value); });
  RunInputs in{.tables = &tables,
               .args = args,
               .step_arg_count = variant.plan.args.step_words,
               .group_count = static_cast<uint32_t>(data.group_count)};
  run(HostContext(tables, block).of(in));
  each_state([](char* at, DType d, Bits& value) { value = load_bits(at, d); });
}

std::string compare_with_interpreter(const Program& program, const TestData& input,
                                     const RunnerOptions& options, int threads) {
  TestData expected(input), actual(input);
  interpret(program, expected.step());
  KernelRunner runner(program, actual.step(), options);
  runner.run(actual.step(), CpuExecutor(threads));
  return difference(program, expected, actual).value_or("");
}

}  // namespace stepfuse::testing
