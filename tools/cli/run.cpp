// `stepfuse run`: a step over seeded inputs, the same for every backend. Knows the workload.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include "ir/text/near_names.hpp"
#include "ir/text/printable.hpp"
#include "runtime/cpu/cpu_executor.hpp"
#include "tools/cli/cuda_code.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/settings.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/machine.hpp"
#include "tools/workload/runner.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kRunFooter = R"(Examples:
  stepfuse run adamw --clip --loss-scale --grad f16 --master --steps 8
  stepfuse run adamw --clip --digest --backend=interpret   the language's definition …
  stepfuse run adamw --clip --digest --form=unfused        … and the same bits from the CPU
  stepfuse run my_step.sf --inputs=special --layout samples/layouts/misaligned.json
  stepfuse run adamw --set lr=0.01 --json
  stepfuse run adamw --set 'weight_decay[1]=0' --layout samples/layouts/sizes.json

Inputs depend only on --seed, names and sizes. --inputs=special puts NaN, infinities, subnormals, -0 and the
largest values into weights and moments. Its steps 0 to 3 have good, non-finite, good and overflowing
gradients. --inputs=single puts one NaN or infinity into every second step. --digest prints one hash of
all buffers and states at the end: equal digests mean bit-identical results.)";

constexpr uint64_t kRunParams = 100'000;

struct RunArguments {
  SourceArguments source;
  std::string backend = "cpu";
  std::string form = "fused";
  std::string inputs = "normal";
  std::string cpu_level = "host";
  int threads = 0;
  int ordinal = 0;
  std::string cuda_options;
  RunPlan plan;
  std::vector<std::string> set;
  bool digest = false;
  bool json = false;
};

Device device_of(const RunArguments& o) {
  if (o.backend == "interpret") return Device::interpreter();
  if (o.backend == "cuda") return Device::cuda(o.ordinal, o.cuda_options);
  return Device::cpu(o.threads, o.cpu_level);
}

RunPlan make_plan(const RunArguments& o, const Program& program) {
  RunPlan plan = o.plan;
  plan.device = device_of(o);
  plan.form = *form_from_name(o.form);
  plan.inputs.inputs = o.inputs == "special"  ? Inputs::special
                       : o.inputs == "single" ? Inputs::single
                                              : Inputs::normal;
  plan.digest = o.digest;
  plan.args = parse_settings(o.set, program);
  return plan;
}

struct Summary {
  const RunArguments& options;
  const Source& source;
  const LayoutFile& layout;
  const RunReport& report;
  uint64_t parameters = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

Json number(double v) {
  // JSON has no NaN and no infinity.
  if (std::isfinite(v)) return v;
  return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
}

void print_summary_json(const Summary& s) {
  const RunReport& r = s.report;
  Json j = {{"step", s.source.title},        {"backend", s.options.backend},
            {"form", s.options.form},        {"layout", s.layout.name},
            {"parameters", s.parameters},    {"tensors", s.layout.tensors.size()},
            {"steps", s.options.plan.steps}, {"seed", s.options.plan.inputs.seed},
            {"inputs", s.options.inputs},    {"cpu", cpu_name()}};
  if (s.options.backend == "cpu") {
    j["threads"] = CpuExecutor(s.options.threads).threads();
    j["cpu_level"] = s.options.cpu_level;
  }
  j["workspace_bytes"] = r.workspace_bytes;
  j["compile_ms"] = {{"passes", r.compile.passes_ms},     {"parse", r.compile.parse_ms},
                     {"optimize", r.compile.optimize_ms}, {"codegen", r.compile.codegen_ms},
                     {"load", r.compile.load_ms},         {"total", r.compile.total_ms()}};
  j["prepare_ms"] = r.compile.prepare_ms;
  j["from_disk_cache"] = r.compile.from_disk_cache;
  j["seconds"] = r.seconds;
  Json reports = Json::array();
  for (const StepStats& stats : r.stats) {
    Json row = {{"step", stats.index}};
    for (const auto& [name, value] : stats.values) row[name] = number(value);
    for (const auto& [name, members] : stats.lists) {
      row[name] = Json::array();
      for (double v : members) row[name].push_back(number(v));
    }
    reports.push_back(row);
  }
  j["reports"] = reports;
  if (s.options.digest) j["digest"] = r.digest;
  print_json(j);
}

// The members of a list in one cell; only the first ones if there are many.
std::string cell(const std::vector<double>& members) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t m = 0; m < std::min(kShown, members.size()); ++m) {
    text += fmt::format("{}{:.6g}", m == 0 ? "" : " ", members[m]);
  }
  if (members.size() > kShown) text += fmt::format(" … ({})", members.size());
  return text;
}

Table stats_table(const std::vector<StepStats>& all) {
  Table table;
  for (const StepStats& stats : all) {
    if (stats.values.empty() && stats.lists.empty()) continue;
    if (table.empty()) {
      std::vector<std::string> head = {"step"};
      for (const auto& [name, value] : stats.values) head.push_back(name);
      for (const auto& [name, members] : stats.lists) head.push_back(name);
      table.row(head);
    }
    std::vector<std::string> cells = {fmt::format("{}", stats.index)};
    for (const auto& [name, value] : stats.values) cells.push_back(fmt::format("{:.6g}", value));
    for (const auto& [name, members] : stats.lists) cells.push_back(cell(members));
    table.row(cells);
  }
  return table;
}

void print_text(const Summary& s) {
  const RunReport& r = s.report;
  size_t tensors = s.layout.tensors.size();
  fmt::print("{}\n{} parameters in {} tensor{} (layout {}), {} inputs, seed {}\n", s.source.title,
             with_commas(s.parameters), with_commas(tensors), tensors == 1 ? "" : "s",
             printable(s.layout.name), s.options.inputs, s.options.plan.inputs.seed);
  fmt::print("{}, form {}, {} in {:.1f} ms, workspace {}\n", s.options.backend, s.options.form,
             r.compile.from_disk_cache ? "from the disk cache" : "compiled", r.compile.prepare_ms,
             human_bytes(static_cast<double>(r.workspace_bytes)));
  if (!r.seconds.empty()) {
    fmt::print("a step takes {:.3g} ms (median of {})\n", 1e3 * median(r.seconds),
               r.seconds.size());
  }
  fmt::print("\n{}", stats_table(r.stats).text());
}

int run(const RunArguments& o) {
  Source source = load_source(o.source);
  LayoutFile layout = load_layout(o.source, source.program, kRunParams);
  RunPlan plan = make_plan(o, source.program);
  Progress progress;
  RunReport report =
      run_workload(source.program, layout, source.bindings, plan,
                   [&](double done, std::string_view what) { progress.show(done, what); });
  progress.clear();
  uint64_t parameters = 0;
  for (const TensorEntry& t : layout.tensors) parameters += t.size;
  Summary all{o, source, layout, report, parameters};
  if (o.json) {
    print_summary_json(all);
  } else if (o.digest) {
    fmt::print("{}\n", report.digest);
  } else {
    print_text(all);
  }
  return kOk;
}

void add_input_options(CLI::App& verb, RunArguments& o) {
  WorkloadOptions& in = o.plan.inputs;
  verb.add_option("--steps", o.plan.steps, "Number of steps [4]")
      ->type_name("N")
      ->transform(in_range(0, 1'000'000'000));
  verb.add_option("--seed", in.seed, "Seed of the inputs [1]")
      ->type_name("N")
      ->transform(in_range<uint64_t>(0, ~uint64_t{0}));
  verb.add_option("--inputs", o.inputs, "Kind of input values [normal]")
      ->type_name("normal|special|single")
      ->check(one_of({"normal", "special", "single"}));
  verb.add_option("--absent", in.absent, "Probability that a tensor has no gradient in a step [0]")
      ->type_name("P")
      ->transform(in_range(0.0, 1.0));
  verb.add_flag("--moving", in.moving, "Move the gradients to other addresses at every step");
  verb.add_flag("--observe", o.plan.observe,
                "Split phase: pass gradients in parts, the last ones first");
  verb.add_option("--gradient", in.gradient, "Buffer that is passed to each run [grad]")
      ->type_name("BUFFER");
  add_settings(verb, o.set);
  verb.add_flag("--vary", o.plan.vary_args, "Vary hyperparameters between groups and steps");
  verb.add_option("--init-scale", o.plan.init_scale, "Initial loss scale [65536]")
      ->type_name("X")
      ->transform(
          in_range<double>(std::numeric_limits<float>::min(), std::numeric_limits<float>::max()));
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("run", "Run a step on seeded inputs");
  verb->footer(std::string(kRunFooter));
  auto o = std::make_shared<RunArguments>();
  add_source(*verb, o->source, true);
  verb->add_option("--backend", o->backend, "Backend to run on [cpu]")
      ->type_name("cpu|cuda|interpret")
      ->check(one_of({"cpu", "cuda", "interpret"}));
  add_form(*verb, o->form);
  verb->add_option("--threads", o->threads, "Number of CPU threads; 0 means all [0]")
      ->type_name("N")
      ->transform(in_range(0, 4096));
  verb->add_option("--cpu-level", o->cpu_level,
                   "Processor level whose instructions may be used [host]")
      ->type_name("host|x86-64|x86-64-v3|x86-64-v4");
  verb->add_option("--device", o->ordinal, "Number of the GPU [0]")
      ->type_name("N")
      ->transform(in_range(0, 1023));
  add_cuda_options(*verb, o->cuda_options);
  add_input_options(*verb, *o);
  verb->add_flag("--digest", o->digest, "Print one hash of all buffers and states at the end");
  verb->add_flag("--json", o->json, "Print JSON");
  verb->callback([&action, o] { action = [o] { return run(*o); }; });
}

}  // namespace stepfuse::cli
