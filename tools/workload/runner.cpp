// Runs a step a few times over a workload. Knows the public API.
#include "tools/workload/runner.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include <stepfuse/ir.hpp>

#include "runtime/cuda/host_access.hpp"
#include "runtime/step/internals.hpp"

namespace stepfuse {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_fractional(DType t) { return t == DType::f32 || t == DType::f64; }

// Arguments that are the scaler's own rule or a bound. They must not be varied: scaled by a factor
// below 1 they would be a different rule.
bool is_policy(std::string_view name) {
  return name == "growth_factor" || name == "backoff_factor" || name == "min_scale" ||
         name == "max_scale" || name == "accumulation" || name == "external_norm";
}

int tensor_named(const Step& step, const std::string& name) {
  const auto& tensors = step.layout().tensors();
  auto it = std::find_if(tensors.begin(), tensors.end(),
                         [&](const TensorSpec& t) { return t.name == name; });
  if (it != tensors.end()) return static_cast<int>(it - tensors.begin());
  throw Error(ErrorKind::usage, fmt::format("the layout has no tensor '{}'", name.substr(0, 80)));
}

// The step's per-tensor argument with this name, or null.
const Arg* tensor_arg(const Program& program, const std::string& name) {
  int i = program.find_arg(name);
  if (i < 0) return nullptr;
  const Arg& arg = program.args[static_cast<size_t>(i)];
  if (arg.type.at == per::tensor) return &arg;
  throw Error(ErrorKind::usage,
              fmt::format("argument '{0}' of step @{1} is not per tensor; with --per-tensor={0} "
                          "there is '{0}_scale'",
                          name, program.name));
}

class Arguments {
 public:
  Arguments(const Step& step, const LayoutFile& layout, const RunPlan& plan)
      : step_(step), plan_(plan), base_(make_args(step, layout, plan.args)) {}

  Args at(int index) const {
    Args args = base_;
    if (!plan_.vary_args) return args;
    for (const Arg& a : step_.program().args) {
      if (!is_fractional(a.type.dtype) || is_policy(a.name)) continue;
      ArgId id = step_.arg(a.name);
      const Layout& layout = step_.layout();
      int members = a.type.at == per::group    ? layout.group_count()
                    : a.type.at == per::tensor ? static_cast<int>(layout.size())
                                               : 1;
      for (int m = 0; m < members; ++m) {
        RandomStream random(plan_.inputs.seed, a.name, static_cast<uint64_t>(m));
        double factor = 0.9 + 0.1 * random.uniform(static_cast<uint64_t>(index));
        args.set(id, Internals::member(m), base_.get(id, Internals::member(m)) * factor);
      }
    }
    return args;
  }

 private:
  const Step& step_;
  const RunPlan& plan_;
  Args base_;
};

void run_once(Step& step, std::span<void* const> gradients, const Args& args, bool observe) {
  if (observe) {
    size_t half = gradients.size() / 2;
    step.observe(Tensor{half}, gradients.subspan(half), args);
    // Leaves the first gradients to run(), as if a hook came late.
    step.observe(Tensor{0}, gradients.subspan(0, half / 2), args);
  }
  step.run(gradients, args);
}

}  // namespace

Args make_args(const Step& step, const LayoutFile& layout,
               const std::vector<ArgSetting>& settings) {
  Args args = step.make_args();
  for (size_t t = 0; t < layout.tensors.size(); ++t) {
    for (const auto& [name, value] : layout.tensors[t].args) {
      if (tensor_arg(step.program(), name)) args.set(name, Tensor{t}, value);
    }
  }
  for (const ArgSetting& s : settings) {
    if (!s.tensor.empty()) {
      tensor_arg(step.program(), s.name);
      args.set(s.name, Tensor{static_cast<size_t>(tensor_named(step, s.tensor))}, s.value);
    } else if (s.member >= 0) {
      args.set(s.name, Internals::member(s.member), s.value);
    } else {
      args.set(s.name, s.value);
    }
  }
  return args;
}

std::unique_ptr<LossScaler> scaler_for(const Program& program, float init_scale) {
  bool shared = std::any_of(program.states.begin(), program.states.end(),
                            [](const State& s) { return s.shared; });
  if (!shared) return nullptr;
  return std::make_unique<LossScaler>(LossScaler::Options{.init_scale = init_scale});
}

void open_window(const Program& program, LossScaler* scaler) {
  int window = program.find_state("micro_batches");
  if (window >= 0 && program.states[static_cast<size_t>(window)].shared) {
    scaler->write("micro_batches", 0);
  }
}

RunReport run_workload(const Program& program, const LayoutFile& layout, const Bindings& bindings,
                       const RunPlan& plan, const ProgressCallback& progress) {
  auto tell = [&](double done, std::string_view what) {
    if (progress) progress(done, what);
  };
  std::unique_ptr<LossScaler> scaler = scaler_for(program, plan.init_scale);
  Workload workload(program, layout, bindings, plan.inputs);
  std::vector<cuda::HostAccess> access;
  if (plan.device.kind() == Device::Kind::cuda) {
    for (std::span<char> m : workload.memory()) access.emplace_back(plan.device.ordinal(), m);
  }
  Step step(program, workload.layout(), plan.device,
            {.form = plan.form,
             .scaler = scaler.get(),
             .gradient = plan.inputs.gradient,
             .observe = plan.observe});
  open_window(program, scaler.get());
  Arguments arguments(step, layout, plan);

  RunReport report;
  tell(0, "compiling");
  step.prepare();
  report.compile = step.compile_report();
  report.workspace_bytes = step.workspace_bytes();
  tell(0, "filling arrays");
  workload.start(step);
  for (int i = 0; i < plan.steps; ++i) {
    tell(static_cast<double>(i) / plan.steps, "running");
    std::span<void* const> gradients = workload.gradients(static_cast<uint64_t>(i));
    Args args = arguments.at(i);
    double begin = seconds_now();
    run_once(step, gradients, args, plan.observe);
    if (auto s = step.stats()) report.stats.push_back(std::move(*s));
    report.seconds.push_back(seconds_now() - begin);
  }
  if (auto damage = workload.damage()) throw Error(ErrorKind::device, *damage);
  if (plan.digest) {
    tell(1, "hashing");
    report.digest = workload.digest(step);
  }
  return report;
}

}  // namespace stepfuse
