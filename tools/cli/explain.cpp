// `stepfuse explain`: the costs of a step and what fusion saves, without running it. Knows the
// explanation.
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include "runtime/cuda/nvrtc.hpp"
#include "tools/cli/cuda_code.hpp"
#include "tools/cli/explanation.hpp"
#include "tools/cli/sass_text.hpp"
#include "tools/cli/scale.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/sass/disassembler.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kExplainFooter = R"(Examples:
  stepfuse explain adamw --grad f16 --master --loss-scale --clip
  stepfuse explain adamw --clip --params 1e9 --no-compile
  stepfuse explain my_step.sf --layout samples/layouts/gpt2.json
  stepfuse explain adamw --clip --arch sm_90 --json
  stepfuse explain adamw --clip --params 7e9 --ranks 8..16384 --link ndr400
  stepfuse explain adamw --clip --arch sm_90,sm_100 --sass

Bytes are counted in the schedule, not measured: what each phase reads and writes per array. The times on
GPUs are these bytes at the full bandwidth of the memory, so no real step is faster. With --params, steps that
reduce rows or columns get a matrix, as square as the number allows.)";

constexpr uint64_t kExplainParams = 100'000'000;

struct ExplainArguments {
  SourceArguments source;
  std::vector<std::string> archs = {"sm_90"};
  bool no_compile = false;
  bool sass = false;
  bool json = false;
  std::string ranks;
  std::string link = "ndr400";
};

// Reports missing tools before anything is compiled.
void require_sass(const std::vector<int>& archs) {
  sass::require_disassembler();
  for (int arch : archs) cuda::require_arch(arch);
}

int explain(const ExplainArguments& o) {
  bool scales = !o.ranks.empty();
  ScaleOptions scale_options;
  if (scales) scale_options = {.ranks = parse_ranks(o.ranks), .link = parse_link(o.link)};
  ExplainOptions options{.archs = {}, .compile = !o.no_compile && !scales};
  for (const std::string& a : o.archs) options.archs.push_back(parse_arch(a));
  if (o.sass) require_sass(options.archs);
  Source source = load_source(o.source);
  LayoutFile layout = load_layout(o.source, source.program, kExplainParams);
  Progress progress;
  Explanation e =
      explain(source, layout, options, [&](std::string_view what) { progress.show(-1, what); });
  progress.clear();
  if (scales) {
    fmt::print("{}", o.json ? scale_json(e, scale_options) : scale_text(e, scale_options));
    return kOk;
  }
  const Variant& variant = e.forms[0].variant;
  std::vector<sass::Report> reports;
  for (int arch : options.archs) {
    if (o.sass) reports.push_back(sass::report_of(variant, arch));
  }
  fmt::print("{}", o.json ? explanation_json(e, reports) : explanation_text(e));
  if (o.sass && !o.json) fmt::print("{}", sass_text(variant, reports, e.elements));
  return kOk;
}

}  // namespace

void add_explain(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("explain", "Show what a step costs and what fusing saves");
  verb->footer(std::string(kExplainFooter));
  auto o = std::make_shared<ExplainArguments>();
  add_source(*verb, o->source, true);
  verb->add_option("--arch", o->archs,
                   "GPU architectures to compile for, as in sm_80,sm_120 [sm_90]")
      ->type_name("sm_NN,…")
      ->delimiter(',');
  verb->add_flag("--no-compile", o->no_compile,
                 "Compile nothing; show only what the schedule tells");
  verb->add_option("--ranks", o->ranks, "Model the cost on several ranks: 8, or 8,64, or 8..16384")
      ->type_name("N..N|N,…");
  verb->add_option("--link", o->link,
                   "Link between ranks: nvlink4, ndr400, eth100, or GB/s:us [ndr400]")
      ->type_name("LINK");
  verb->add_flag("--sass", o->sass,
                 "Count instructions and bytes in flight in machine code, and predict times; needs "
                 "NVRTC and nvdisasm");
  verb->add_flag("--json", o->json, "Print JSON");
  verb->callback([&action, o] { action = [o] { return explain(*o); }; });
}

}  // namespace stepfuse::cli
