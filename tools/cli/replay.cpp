// `stepfuse replay FILE`: runs a recorded step again and compares it with the interpreter. Knows the
// runtime's records.
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include "runtime/record.hpp"
#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kFooter =
    R"(Record a step by setting, for any program that uses stepfuse,
  STEPFUSE_RECORD=/tmp/bad                  the first step with a non-finite gradient or norm
  STEPFUSE_RECORD=/tmp/bad:step=1200        step 1200
Then:
  stepfuse replay /tmp/bad/adamw-step1200.safetensors
  stepfuse replay FILE --backend cpu --form unfused

The exit code is 1 if the two differ.)";

struct Options {
  std::string file;
  std::string backend = "cpu";
  std::string form;
  int threads = 0;
};

int replay_file(const Options& o) {
  StepRecord record = load_record(o.file);
  Form form = o.form.empty() ? record.form : *form_from_name(o.form);
  Device device = o.backend == "cpu" ? Device::cpu(o.threads) : Device::interpreter();
  fmt::print("step {} of @{}: {} tensors, {} elements, recorded in form {}\n", record.index,
             record.program.name, record.layout.size(), record.layout.element_count(),
             name(record.form));
  auto bad = first_nonfinite(record);
  fmt::print("gradients: {}\n", bad ? *bad : "all finite");
  auto d = first_difference(replay(record, Device::interpreter(), Form::fused),
                            replay(record, device, form));
  if (!d) {
    fmt::print("{} ({}) equals the interpreter in every array and state\n", o.backend, name(form));
    return kOk;
  }
  fmt::print(
      "{} ({}) differs from the interpreter in {} values, first in {}:\n"
      "  interpreter {}\n  {:<11} {}\n  {}\n",
      o.backend, name(form), d->count, d->what, d->a, o.backend, d->b, d->line);
  return kFaultInFile;
}

}  // namespace

void add_replay(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("replay", "Run a recorded step again and compare");
  verb->footer(std::string(kFooter));
  auto o = std::make_shared<Options>();
  verb->add_option("file", o->file, "A record")->required()->type_name("FILE.safetensors");
  verb->add_option("--backend", o->backend, "What to compare with the interpreter")
      ->check(CLI::IsMember({"cpu", "interpret"}))
      ->capture_default_str();
  verb->add_option("--form", o->form, "fused, split or unfused; default: as recorded")
      ->check(CLI::IsMember({"fused", "split", "unfused"}));
  verb->add_option("--threads", o->threads, "Threads of the CPU backend; 0 is all")
      ->capture_default_str();
  verb->callback([&action, o] { action = [o] { return replay_file(*o); }; });
}

}  // namespace stepfuse::cli
