// `stepfuse bench`: times a step on this machine, compared with the memory's speed and optionally
// with PyTorch. Knows the measurement.
#include <algorithm>
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include "tools/cli/bench_run.hpp"
#include "tools/cli/settings.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/torch_rival.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kBenchFooter = R"(Examples:
  stepfuse bench adamw --loss-scale --clip --params 16M
  stepfuse bench adamw --grad bf16 --master --clip --layout samples/layouts/gpt2.json
  stepfuse bench adamw --loss-scale --clip --layout model.safetensors --against torch
  stepfuse bench adamw --clip --params 1M --threads 1,2 -o bench.svg
  stepfuse bench my_step.sf --json

Forms, streams and PyTorch take turns in one run. The stream reads four arrays and writes three of them in
place, as an Adam update does. The floor is the time of the fused form's bytes at the stream's speed.
Reading alone is slower per byte. The roof is the time of a form's own bytes if phases that only read run
at that slower speed. --against torch times PyTorch's unscale_, clip_grad_norm_, step and update over the
same shapes, fused and foreach, in a separate process; torch-compile adds torch.compile.
For a GPU see tools/gpu_check.sh.)";

constexpr uint64_t kBenchParams = 16'000'000;

struct BenchArguments {
  SourceArguments source;
  std::vector<int> threads = {0};
  std::vector<std::string> set;
  std::string against;
  std::string python = "python3";
  std::string picture;
  int rounds = 9;
  bool json = false;
};

int run_bench(const BenchArguments& o) {
  if (!o.picture.empty()) check_writable(o.picture);
  Source source = load_source(o.source);
  LayoutFile layout = load_layout(o.source, source.program, kBenchParams);
  BenchOptions options{.threads = o.threads,
                       .rounds = o.rounds,
                       .args = parse_settings(o.set, source.program),
                       .rivals = {}};
  Progress progress;
  std::vector<std::unique_ptr<Rival>> rivals;
  if (!o.against.empty()) {
    progress.show(-1, "starting PyTorch");
    rivals = torch_rivals(
        source, o.source, layout,
        {.python = o.python, .threads = o.threads[0], .compiled = o.against == "torch-compile"});
    for (auto& r : rivals) options.rivals.push_back(r.get());
  }
  BenchReport report = bench(source, layout, options, [&](double done, std::string_view what) {
    progress.show(done, what);
  });
  progress.clear();
  fmt::print("{}", o.json ? bench_json(report) : bench_text(report));
  if (!o.picture.empty()) write_file(o.picture, bench_picture(report));
  return kOk;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("bench", "Time a step on this machine's CPU");
  verb->footer(std::string(kBenchFooter));
  auto o = std::make_shared<BenchArguments>();
  add_source(*verb, o->source, true);
  verb->add_option("--threads", o->threads, "Number of threads, one or several; 0 means all [0]")
      ->type_name("N,…")
      ->delimiter(',')
      ->transform(in_range(0, 4096));
  verb->add_option("--rounds", o->rounds, "Rounds that are measured [9]")
      ->type_name("N")
      ->transform(in_range(1, 1000));
  add_settings(*verb, o->set);
  verb->add_option("--against", o->against, "Also time PyTorch's pipeline")
      ->type_name("torch|torch-compile")
      ->check(one_of({"torch", "torch-compile"}));
  verb->add_option("--python", o->python, "Python that has PyTorch [python3]")->type_name("PATH");
  verb->add_option("-o,--output", o->picture, "Write a picture")->type_name("FILE.svg");
  verb->add_flag("--json", o->json, "Print JSON, with the time of every round");
  verb->callback([&action, o] { action = [o] { return run_bench(*o); }; });
}

}  // namespace stepfuse::cli
