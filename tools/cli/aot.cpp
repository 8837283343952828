// `stepfuse aot`: compiles a step's kernels for machines without a compiler. Knows the runtime's
// ahead-of-time compilation.
#include <memory>

#include <fmt/format.h>

#include "runtime/step/ahead.hpp"
#include "tools/cli/cuda_code.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kAotFooter = R"(Examples:
  stepfuse aot adamw --grad f16 --master --clip --for x86-64-v3,x86-64 -o kernels
  stepfuse aot adamw --clip --for sm_80,sm_90,compute_90 -o kernels
  stepfuse aot my_step.sf --layout model.json --for x86-64-v4,sm_100 -o kernels

NVRTC is needed for sm_NN and compute_NN, LLVM for processor levels. The folder serves every process that
runs this version of stepfuse: set STEPFUSE_KERNELS=kernels, or call use_kernels("kernels"). Pass the
options that your program uses, and a layout with its storage types; sizes do not matter. A layout file is
{"name": "model", "tensors": [{"name": "w", "shape": [1024, 768]}]}. A processor uses the best level that it
has; a GPU uses the nearest cubin of its generation, or PTX if it is newer.)";

struct AotArguments {
  SourceArguments source;
  std::string form = "fused";
  std::string cuda_options;
  std::vector<std::string> targets;
  std::string output;
  bool observe = false;
  bool json = false;
};

int aot(const AotArguments& o) {
  Source source = load_source(o.source);
  Layout layout =
      make_layout(load_layout(o.source, source.program, 1), source.program, source.bindings);
  AheadRequest request{.program = source.program,
                       .layout = layout,
                       .form = *form_from_name(o.form),
                       .observe = o.observe,
                       .cuda_options = o.cuda_options,
                       .targets = o.targets};
  Table table;
  Json rows = Json::array();
  for (const AheadKernel& k : compile_ahead(request, o.output)) {
    table.row({k.target, k.step, k.form, human_bytes(static_cast<double>(k.bytes))});
    rows.push_back({{"target", k.target}, {"step", k.step}, {"form", k.form}, {"bytes", k.bytes}});
  }
  if (o.json) {
    print_json(rows);
    return kOk;
  }
  fmt::print("{}", table.text());
  return kOk;
}

}  // namespace

void add_aot(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("aot", "Compile kernels ahead of time, for machines without a compiler");
  verb->footer(std::string(kAotFooter));
  auto o = std::make_shared<AotArguments>();
  verb->add_option("--for", o->targets,
                   "What to compile for: processor levels, cubins (sm_NN), PTX (compute_NN)")
      ->required()
      ->delimiter(',')
      ->type_name("TARGET,…");
  verb->add_option("-o,--output", o->output, "Folder to which kernels are added")
      ->required()
      ->type_name("DIR");
  verb->add_flag("--observe", o->observe, "Add the kernels that observe() and reduce() need");
  verb->add_flag("--json", o->json, "Print JSON");
  add_form(*verb, o->form);
  add_cuda_options(*verb, o->cuda_options);
  add_source(*verb, o->source, true);
  verb->callback([&action, o] { action = [o] { return aot(*o); }; });
}

}  // namespace stepfuse::cli
