// `stepfuse convert FROM TO --moments=FORM`: a checkpoint with its moments in another form. Knows
// the public API.
#include <memory>

#include <CLI/Option.hpp>

#include <stepfuse/checkpoint.hpp>

#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kFooter = R"(Examples:
  stepfuse convert run.safetensors run8.safetensors --moments=fp8
  stepfuse convert run.safetensors run8.safetensors --moments='exp_avg=int8|exp_avg_sq=sqrt8'
  stepfuse convert run.safetensors run8.safetensors --moments=dyn8 --moments-below=4096
  stepfuse convert run8.safetensors run.safetensors --moments=f32

So a run switches at a checkpoint: each number is rounded once, here. What has the form already, and all
else in the file, keeps its bits.)";

struct Options {
  std::string from;
  std::string to;
  std::string moments;
  uint64_t below = 0;
};

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("convert", "A checkpoint with its moments in another form");
  verb->footer(std::string(kFooter));
  auto options = std::make_shared<Options>();
  verb->add_option("from", options->from, "The checkpoint")->required()->type_name("FROM");
  verb->add_option("to", options->to, "The file to write")->required()->type_name("TO");
  verb->add_option("--moments", options->moments,
                   "f32, bf16, a format, or of some NAME=FORM|NAME=FORM")
      ->required();
  verb->add_option("--moments-below", options->below,
                   "Tensors of fewer elements have f32, as with the option of recipes [0]")
      ->type_name("N");
  verb->callback([&action, options] {
    action = [options] {
      convert_checkpoint(options->from, options->to, options->moments, options->below);
      return kOk;
    };
  });
}

}  // namespace stepfuse::cli
