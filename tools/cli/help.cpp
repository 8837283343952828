// Help texts. Knows CLI11, the recipes' option table and the environment variables.
#include "tools/cli/help.hpp"

#include <algorithm>

#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/recipes.hpp>

#include "tools/cli/recipe_flags.hpp"

namespace stepfuse::cli {
namespace {

constexpr size_t kWidth = 100;
constexpr size_t kColumn = 34;  // the column of option descriptions

// Counts characters, not bytes, because names of types contain "…".
size_t length(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

class HelpFormatter : public CLI::Formatter {
 public:
  // CLI11's mode for its second help flag stands for the long help here.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    bool is_root = app->get_parent() == nullptr;
    bool is_long = mode == CLI::AppFormatMode::All;
    std::string out = make_description(app) + make_usage(app, name) + make_positionals(app) +
                      make_groups(app, CLI::AppFormatMode::Normal);
    if (app->get_option_no_throw("--clip") != nullptr) {
      out += "\nRecipe options, such as --clip and --master: `stepfuse help recipe-options`\n";
    }
    if (is_root) out += list_verbs(app);
    if (is_long) {
      out += "\n" + make_footer(app);
    } else {
      out += fmt::format("\n`{} --help` adds examples.\n",
                         is_root ? name : "stepfuse " + app->get_name());
    }
    return out;
  }

  std::string make_usage(const CLI::App* app, std::string name) const override {
    std::string out = fmt::format("Usage: {} [OPTIONS]", name);
    if (app->get_parent() == nullptr) out += " VERB";
    for (const CLI::Option* o : app->get_options()) {
      if (o->get_positional()) out += " " + make_option_usage(o);
    }
    return out + "\n";
  }

  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    std::string head = is_positional ? option->get_name(true, false) : names_of(option);
    std::string type = option->get_type_size() != 0 ? option->get_type_name() : "";
    if (!type.empty()) head += " " + type;
    std::string text = option->get_description();
    if (option->get_required()) text += " (required)";
    return help_entry(head, text, kColumn);
  }

 private:
  static std::string names_of(const CLI::Option* option) {
    std::vector<std::string> names;
    for (const std::string& n : option->get_snames()) names.push_back("-" + n);
    for (const std::string& n : option->get_lnames()) names.push_back("--" + n);
    return fmt::format("{}", fmt::join(names, ", "));
  }

  static std::string list_verbs(const CLI::App* app) {
    std::string out = "\nVerbs:\n";
    for (const CLI::App* verb : app->get_subcommands({})) {
      if (!verb->get_group().empty()) {
        out += help_entry(verb->get_name(), verb->get_description(), 16);
      }
    }
    out += "\nTopics of `stepfuse help TOPIC`:\n";
    for (const HelpTopic& t : help_topics()) out += help_entry(t.name, t.summary, 18);
    return out;
  }
};

std::string recipe_options_text() {
  std::string out =
      "Options of recipes and formulas, for every verb that takes one\n\n"
      "An option with [values] may stand alone: --clip is --clip=l2. Several values are separated\n"
      "by commas:\n"
      "  stepfuse run adamw --store exp_avg=dyn8,exp_avg_sq=dyn8u\n"
      "  stepfuse dump adamw --grad f16,bf16 --emit=plan\n"
      "Some formulas have further options: `stepfuse list RECIPE` shows them.\n\n"
      "Options:\n";
  std::string aliases = "\nOlder options, each for a part of what --store says:\n";
  for (const RecipeOption& row : recipe_option_table()) {
    std::string help(row.help);
    std::string fallback = row.values.empty() ? "" : row.get(RecipeOptions{});
    if (!fallback.empty()) help += fmt::format(" [{}]", fallback);
    (row.is_alias ? aliases : out) += help_entry(recipe_option_usage(row), help, 8);
  }
  return out + aliases;
}

std::string environment_text() {
  std::string out =
      "Environment variables of the library and of this tool\n\n"
      "`stepfuse env` shows those that are set.\n\n"
      "Variables:\n";
  for (const Variable& v : environment_variables()) {
    out += help_entry(fmt::format("{}={}", v.name, v.values), v.meaning, 8);
  }
  return out;
}

constexpr HelpTopic kTopics[] = {
    {"recipe-options", "Options of recipes and formulas, such as --clip", recipe_options_text},
    {"environment", "Environment variables", environment_text},
};

constexpr Variable kVariables[] = {
    {"STEPFUSE_CACHE", "off", "use no kernels from the disk cache, and store none [on]"},
    {"STEPFUSE_CACHE_DIR", "DIR",
     "folder of the disk cache [$XDG_CACHE_HOME/stepfuse, else ~/.cache/stepfuse]"},
    {"STEPFUSE_KERNELS", "DIR:DIR",
     "folders of kernels that `stepfuse aot` compiled; with them no compiler is opened"},
    {"STEPFUSE_FORM", "fused|split|unfused|interpret",
     "run every step of the process in this form; results are bit-identical"},
    {"STEPFUSE_RECORD", "DIR[:step=N]",
     "save the first step with a non-finite gradient or norm, or step N, for `stepfuse replay`"},
    {"STEPFUSE_PERF_MAP", "1", "name CPU kernels for perf, in /tmp/perf-PID.map"},
    {"STEPFUSE_CPU_CODE", "optimized|quick",
     "quick: CPU kernels compile in about half the time and take up to twice as long to run; "
     "results are bit-identical [optimized]"},
    {"STEPFUSE_CUDA_CODE", "cubin|ptx",
     "form in which CUDA kernels are loaded [PTX only for devices newer than NVRTC]"},
    {"STEPFUSE_LLVM_LIBRARY", "FILE",
     "the libLLVM to compile CPU kernels with [the system's, 19 or later]"},
    {"STEPFUSE_NVRTC_DIR", "DIR", "folder of libnvrtc.so [the CUDA toolkit's, or pip's]"},
    {"STEPFUSE_NCCL_LIBRARY", "FILE", "the NCCL to reduce over ranks with [libnccl.so.2]"},
    {"STEPFUSE_NVDISASM", "FILE",
     "the nvdisasm that reads machine code [in the PATH, or next to the tool]"},
    {"STEPFUSE_PLAIN_TORCH", "1",
     "call none of torch's private functions from Python; the replacements are slower"},
    {"NO_COLOR", "1", "print messages without colour on a terminal, too"},
};

}  // namespace

std::shared_ptr<CLI::Formatter> make_help_formatter() { return std::make_shared<HelpFormatter>(); }

std::span<const HelpTopic> help_topics() { return kTopics; }

const HelpTopic* find_topic(std::string_view name) {
  for (const HelpTopic& t : kTopics) {
    if (t.name == name) return &t;
  }
  return nullptr;
}

std::span<const Variable> environment_variables() { return kVariables; }

std::string help_entry(std::string_view head, std::string_view text, size_t column) {
  std::string out = fmt::format("  {}", head);
  std::string line;
  auto end_line = [&] {
    // The first line goes next to the head if the head is short enough.
    size_t used = out.ends_with('\n') ? 0 : length(out.substr(out.rfind('\n') + 1));
    if (used + 2 > column && used != 0) {
      out += '\n';
      used = 0;
    }
    out += std::string(column - used, ' ') + line + '\n';
    line.clear();
  };
  while (!text.empty()) {
    std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(word.size() + 1, text.size()));
    if (!line.empty() && column + length(line) + 1 + length(word) > kWidth) end_line();
    line += fmt::format("{}{}", line.empty() ? "" : " ", word);
  }
  end_line();
  return out;
}

}  // namespace stepfuse::cli
