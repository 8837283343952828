// `stepfuse convert FROM TO --moments=FORM`: converts a checkpoint's moments to a different type or
// format. Knows the public API.
#include <memory>

#include <CLI/Option.hpp>

#include <stepfuse/checkpoint.hpp>

#include "tools/cli/source.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kConvertFooter = R"(Examples:
  stepfuse convert run.safetensors run8.safetensors --moments=fp8
  stepfuse convert run.safetensors run8.safetensors --moments=exp_avg=int8,exp_avg_sq=sqrt8
  stepfuse convert run.safetensors run8.safetensors --moments=dyn8 --moments-below=4096
  stepfuse convert run8.safetensors run.safetensors --moments=f32

Switches a run to a different format. Each moment is rounded once; everything else is copied unchanged.)";

struct ConvertArguments {
  std::string from;
  std::string to;
  std::string moments;
  uint64_t below = 0;
};

}  // namespace

void add_convert(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("convert", "Convert a checkpoint's moments");
  verb->footer(std::string(kConvertFooter));
  auto options = std::make_shared<ConvertArguments>();
  verb->add_option("from", options->from, "The checkpoint to read")->required()->type_name("FROM");
  verb->add_option("to", options->to, "The file to write")->required()->type_name("TO");
  verb->add_option("--moments", options->moments,
                   "f32, bf16 or a format; per moment: NAME=FORM,NAME@MIN=FORM")
      ->required();
  verb->add_option("--moments-below", options->below,
                   "Tensors with fewer elements keep f32, as with the recipe option [0]")
      ->type_name("N")
      ->transform(in_range<uint64_t>(0, ~uint64_t{0}));
  verb->callback([&action, options] {
    action = [options] {
      write_named([&] {
        convert_checkpoint(options->from, options->to, options->moments, options->below);
      });
      return kOk;
    };
  });
}

}  // namespace stepfuse::cli
