// `stepfuse explore`: a page with the stages of a step side by side. Knows the explorer, the
// traffic and the machine code's report.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include "compiler/plan/traffic.hpp"
#include "ir/text/words.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "tools/cli/cuda_code.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/table.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/explore/page.hpp"
#include "tools/sass/disassembler.hpp"
#include "tools/sass/report.hpp"
#include "tools/workload/text_file.hpp"

extern char** environ;

namespace stepfuse::cli {
namespace {

constexpr std::string_view kExploreFooter = R"(Examples:
  stepfuse explore adamw --grad f16 --master --clip --loss-scale -o adamw.html
  stepfuse explore my.opt --clip --arch sm_100 -o my.html --open
  stepfuse explore my_step.sf --form unfused --cpu-level x86-64-v3 -o my_step.html

The page is one file and needs no network. Hover over a line to highlight its counterparts in all stages.
Click it to see its type, phase and cost; the address then leads back to it. Press / to search.
The links are exact: instructions keep their line through the passes, emitters write the instruction next to
its code, and PTX and SASS have the compiler's line information.
SASS needs nvdisasm: in the PATH, named in STEPFUSE_NVDISASM, or in the build folder.)";

struct ExploreArguments {
  SourceArguments source;
  KernelWords kernel;
  std::string output;
  bool open = false;
};

// The word as a shell reads it.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-=,./:+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

// The command that makes the page again. The title has the recipe with its options.
std::string command_of(const std::string& title, const ExploreArguments& o) {
  const KernelWords defaults;
  std::string out = "stepfuse explore ";
  out += o.source.recipe.empty() ? quoted(o.source.what) : title;
  auto add = [&](std::string_view flag, const std::string& value, const std::string& standard) {
    if (value != standard) out += fmt::format(" {} {}", flag, quoted(value));
  };
  add("--form", o.kernel.form, defaults.form);
  add("--arch", o.kernel.arch, defaults.arch);
  add("--cuda-options", o.kernel.cuda_options, defaults.cuda_options);
  add("--cpu-level", o.kernel.cpu_level, defaults.cpu_level);
  for (const std::string& b : o.source.bind) add("--bind", b, "");
  add("--layout", o.source.layout_file, "");
  return out + " -o " + quoted(o.output);
}

std::string version_and_date() {
  std::time_t now = std::time(nullptr);
  std::tm day = {};
  localtime_r(&now, &day);
  return fmt::format("stepfuse " STEPFUSE_VERSION ", {}-{:02}-{:02}", day.tm_year + 1900,
                     day.tm_mon + 1, day.tm_mday);
}

// Opens the file with the program that the desktop uses for it.
void open_in_browser(const std::string& file) {
  std::string program = "xdg-open", path = std::filesystem::absolute(file);
  char* words[] = {program.data(), path.data(), nullptr};
  pid_t child = -1;
  int error = posix_spawnp(&child, words[0], nullptr, nullptr, words, environ);
  int status = 0;
  while (error == 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (error != 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw Error(ErrorKind::device,
                fmt::format("--open: xdg-open could not open '{}'{}; open the file in a browser",
                            path, error != 0 ? fmt::format(" ({})", std::strerror(error)) : ""));
  }
}

constexpr uint64_t kElements = 100'000'000;  // the size for which times are predicted

// Formats bytes per parameter, read and written, as "12+8".
std::string bytes_cell(const PhaseTraffic& phase) {
  uint32_t read = 0, written = 0;
  for (const ArrayTraffic& a : phase.arrays) {
    read += a.read;
    written += a.written;
  }
  return fmt::format("{}+{}", read, written);
}

void add_machine_code(std::vector<std::string>* row, const sass::Report& report, size_t phase) {
  auto loop = std::find_if(report.loops.begin(), report.loops.end(), [&](const auto& l) {
    return l.phase == static_cast<int>(phase) && l.signature == 0;
  });
  if (loop == report.loops.end()) {
    row->resize(row->size() + 4, "–");
    return;
  }
  const sass::Budget& b = loop->budget;
  row->push_back(fmt::format("{:.1f}", b.per_element(b.instructions)));
  row->push_back(fmt::format("{} %", 100 * b.wide_bytes / std::max(1, b.loaded + b.stored)));
  row->push_back(fmt::format("{:.0f}", sass::kib_in_flight(b, loop->occupancy)));
  std::string times;
  for (const sass::Gpu& gpu : sass::gpus()) {
    if (gpu.arch != report.arch) continue;
    sass::Prediction p = sass::predict(b, loop->occupancy, gpu, kElements, loop->splits);
    times += fmt::format("{}{}: {:.3f}, {}", times.empty() ? "" : "; ", gpu.name, p.ms, p.limiter);
  }
  row->push_back(times.empty() ? "–" : times);
}

explore::Facts facts_of(const explore::Stages& stages, const ExploreArguments& o, int arch) {
  const Variant& variant = stages.variant;
  const KernelPlan& plan = variant.plan;
  explore::Facts facts;
  facts.head = {"phase", "kernel", "bytes per parameter, read+written"};
  bool has_sass = !sass::find_disassembler().empty() && cuda::nvrtc_status().available;
  sass::Report report;
  if (has_sass) {
    report = sass::report_of(variant, arch);
    for (std::string_view name :
         {"instructions per element", "in wide accesses", "KiB in flight per multiprocessor"}) {
      facts.head.emplace_back(name);
    }
    facts.head.push_back(
        fmt::format("predicted ms for {} parameters, limiter", with_commas(kElements)));
  }
  Traffic traffic = traffic_of(plan, 0);
  for (const plan::Kernel& kernel : plan.kernels) {
    for (auto p = static_cast<size_t>(kernel.first_phase); p < static_cast<size_t>(kernel.end());
         ++p) {
      std::vector<std::string> row = {plan.phases[p].name, kernel.name,
                                      bytes_cell(traffic.phases[p])};
      if (has_sass) add_machine_code(&row, report, p);
      facts.rows.push_back(std::move(row));
    }
  }
  facts.notes.push_back(
      fmt::format("Form {}, {}: {}, {}, {} bytes per parameter{}.", o.kernel.form,
                  plan.signatures[0], count_words(launch_count(plan), "launch"),
                  count_words(barrier_count(plan), "grid barrier"), traffic.bytes(),
                  plan.signatures.size() > 1
                      ? fmt::format(" (the first of {} mixes of types)", plan.signatures.size())
                      : ""));
  for (const cuda::KernelResources& k : stages.kernels) {
    facts.notes.push_back(fmt::format(
        "{}: {} registers, {} of spills, {} bytes of shared memory.", k.kernel, k.registers,
        count_words(k.spill_store_bytes + k.spill_load_bytes, "byte"), k.shared_bytes));
  }
  if (has_sass) {
    facts.notes.emplace_back(
        "Times are not measured. They are a bound: the slowest of issue, units, latency and "
        "memory.");
  }
  return facts;
}

int explore_step(const ExploreArguments& o) {
  Source source = load_source(o.source);
  explore::Request request{.program = source.program,
                           .signatures = signatures_of(source, o.source),
                           .form = *form_from_name(o.kernel.form),
                           .arch = parse_arch(o.kernel.arch),
                           .cuda_options = o.kernel.cuda_options,
                           .cpu_level = o.kernel.cpu_level};
  Progress progress;
  explore::Stages stages =
      explore::make_stages(request, [&](std::string_view what) { progress.show(-1, what); });
  explore::Facts facts = facts_of(stages, o, request.arch);
  progress.clear();
  write_file(o.output, explore::page({.title = source.title,
                                      .version = version_and_date(),
                                      .command = command_of(source.title, o)},
                                     stages, facts));
  for (const explore::Stage& s : stages.all) {
    if (s.lines.empty()) complain(fmt::format("{} is {}\n", s.name, s.note));
  }
  if (o.open) {
    open_in_browser(o.output);
  } else {
    fmt::print("wrote {}: open it in a browser\n", o.output);
  }
  return kOk;
}

}  // namespace

void add_explore(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("explore", "Write a page with all stages of a step side by side");
  verb->footer(std::string(kExploreFooter));
  auto o = std::make_shared<ExploreArguments>();
  verb->add_option("-o,--output", o->output, "File for the page")
      ->type_name("FILE.html")
      ->required();
  verb->add_flag("--open", o->open, "Open the page in the desktop's browser");
  add_kernel_words(*verb, o->kernel);
  add_source(*verb, o->source, false);
  verb->add_option("--layout", o->source.layout_file,
                   "Take storage types from the tensors of a layout")
      ->type_name("FILE.json");
  verb->callback([&action, o] { action = [o] { return explore_step(*o); }; });
}

}  // namespace stepfuse::cli
