// `stepfuse replay FILE`: repeats a recorded step and compares it with the interpreter, or with the
// record of another run. Knows the runtime's records.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/printable.hpp"
#include "ir/text/words.hpp"
#include "runtime/saved/record.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kReplayFooter =
    R"(Record a step by setting this variable for any program that uses stepfuse:
  STEPFUSE_RECORD=$HOME/bad                 the first step with a non-finite gradient or norm
  STEPFUSE_RECORD=$HOME/bad:step=1200       step 1200
Then:
  stepfuse replay ~/bad/adamw-step1200.safetensors
  stepfuse replay FILE --backend cpu --form unfused
  stepfuse replay FILE --result OUT         writes the result to a file for --compare
  stepfuse replay FILE --compare OUT        compares with that file, for example from a different machine

The exit code is 1 if the two differ.)";

struct ReplayArguments {
  std::string file;
  std::string backend = "cpu";
  std::string form;
  std::string result;
  std::string compare;
  int threads = 0;
  bool json = false;
};

bool same_step(const StepRecord& a, const StepRecord& b) {
  auto alike = [](const TensorSpec& x, const TensorSpec& y) {
    return x.elements == y.elements && x.dtypes == y.dtypes && x.group == y.group;
  };
  return a.program == b.program && a.index == b.index && a.present == b.present &&
         std::ranges::equal(a.layout.tensors(), b.layout.tensors(), alike);
}

// The result to compare with: the interpreter's, or a given record.
StepRecord expected(const ReplayArguments& o, const StepRecord& record) {
  if (o.compare.empty()) return replay(record, Device::interpreter(), Form::fused);
  StepRecord given = load_record(o.compare);
  if (!same_step(given, record)) {
    throw Error(
        ErrorKind::usage,
        fmt::format("--compare {}: its step or layout differs from that of {}", o.compare, o.file));
  }
  return given;
}

int replay_file(const ReplayArguments& o) {
  std::error_code none;
  if (std::filesystem::equivalent(o.file, o.result, none)) {
    throw Error(
        ErrorKind::usage,
        fmt::format("--result {}: this is the record itself; name a different file", o.result));
  }
  StepRecord record = load_record(o.file);
  Form form = o.form.empty() ? record.form : *form_from_name(o.form);
  Device device = o.backend == "cpu" ? Device::cpu(o.threads) : Device::interpreter();
  std::string other = o.compare.empty() ? "the interpreter" : printable(o.compare);
  auto bad = first_nonfinite(record);
  if (!o.json) {
    fmt::print("step {} of @{}: {}, {}, recorded in form {}\n", record.index, record.program.name,
               count_words(record.layout.size(), "tensor"),
               count_words(record.layout.element_count(), "element"), name(record.form));
    fmt::print("gradients: {}\n", bad ? printable(*bad) : "all finite");
  }
  StepRecord want = expected(o, record);
  StepRecord got = replay(record, device, form);
  if (!o.result.empty()) write_named([&] { save_record(o.result, got); });
  auto d = first_difference(want, got);
  if (o.json) {
    Json j = {{"step", record.program.name},
              {"index", record.index},
              {"tensors", record.layout.size()},
              {"elements", record.layout.element_count()},
              {"recorded_form", name(record.form)},
              {"form", name(form)},
              {"backend", o.backend},
              {"compared_with", other},
              {"equal", !d.has_value()}};
    if (bad) j["first_nonfinite"] = *bad;
    if (d) {
      j["difference"] = {{"values", d->count},
                         {"first", d->what},
                         {"expected", d->a},
                         {"got", d->b},
                         {"line", d->line}};
    }
    print_json(j);
    return d ? kFaultInFile : kOk;
  }
  if (!d) {
    fmt::print("{} ({}) equals {} in every array and state\n", o.backend, name(form), other);
    return kOk;
  }
  fmt::print(
      "{} ({}) differs from {} in {} values, first in {}:\n"
      "  {}: {}\n  {}: {}\n  {}\n",
      o.backend, name(form), other, d->count, printable(d->what), other, d->a, o.backend, d->b,
      d->line);
  return kFaultInFile;
}

}  // namespace

void add_replay(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("replay", "Run a recorded step again and compare");
  verb->footer(std::string(kReplayFooter));
  auto o = std::make_shared<ReplayArguments>();
  verb->add_option("file", o->file, "The recorded step")->required()->type_name("FILE.safetensors");
  verb->add_option("--backend", o->backend,
                   "Backend to compare with the interpreter: cpu or interpret [cpu]")
      ->type_name("cpu|interpret")
      ->check(one_of({"cpu", "interpret"}));
  verb->add_option("--form", o->form, "Form to run in [as recorded]")
      ->type_name("fused|split|unfused")
      ->check(one_of({"fused", "split", "unfused"}));
  verb->add_option("--threads", o->threads, "Number of CPU threads; 0 means all [0]")
      ->type_name("N")
      ->transform(in_range(0, 4096));
  verb->add_option("--result", o->result, "Write the result to a file, for --compare")
      ->type_name("FILE.safetensors");
  verb->add_option("--compare", o->compare, "Compare with such a file instead of the interpreter")
      ->type_name("FILE.safetensors");
  verb->add_flag("--json", o->json, "Print JSON");
  verb->callback([&action, o] { action = [o] { return replay_file(*o); }; });
}

}  // namespace stepfuse::cli
