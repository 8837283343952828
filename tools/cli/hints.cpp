// Suggestions for words that are options of similar tools. Knows CLI11, recipes and their
// arguments.
#include "tools/cli/hints.hpp"

#include <algorithm>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/recipes/arg_meaning.hpp"
#include "ir/text/near_names.hpp"

namespace stepfuse::cli {
namespace {

// Options of similar tools. "{}" stands for the value.
struct Habit {
  std::string_view word;
  std::string_view hint;
};
constexpr std::string_view kLimit =
    "the limit of a norm is an argument: write --clip=l2 --set max_norm={}";
constexpr std::string_view kMixed =
    "storage types are options of their own: --grad=f16 for gradients, with --master and "
    "--loss-scale";
constexpr std::string_view kBrain =
    "storage types are options of their own: --grad=bf16 for gradients, --model=bf16 with --master "
    "for weights";
constexpr std::string_view kType =
    "each buffer has its own type: --grad={0}, --moments={0}, --model={0}, or --bind BUFFER={0}";
constexpr std::string_view kGpu = "write --backend=cuda";
constexpr Habit kHabits[] = {
    {"max-norm", kLimit},
    {"max-grad-norm", kLimit},
    {"clip-norm", kLimit},
    {"grad-clip", kLimit},
    {"gradient-clip-val", kLimit},
    {"fp16", kMixed},
    {"amp", kMixed},
    {"half", kMixed},
    {"bf16", kBrain},
    {"bfloat16", kBrain},
    {"dtype", kType},
    {"precision", kType},
    {"gpu", kGpu},
    {"cuda", kGpu},
    {"betas", "each decay rate is an argument: write --set beta1=0.9 --set beta2=0.999"},
    {"learning-rate", "lr is an argument of the step: write --set lr={}"},
};

bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789.eE+-") == std::string::npos;
}

std::vector<std::string> arguments_of(std::string_view recipe, const RecipeOptions& options) {
  std::vector<std::string> names;
  for (const Arg& a : make_recipe(recipe, options).args) names.push_back(a.name);
  return names;
}

}  // namespace

std::string hint_for_clip(const std::string& value) {
  if (!is_number(value)) return "";
  return fmt::format(
      "--clip names a kind of clipping, not its limit '{0}': write --clip=l2 --set max_norm={0}",
      value);
}

std::string explain_extra(const CLI::App& verb, const std::vector<std::string>& words) {
  std::string extra = verb.remaining()[0];
  auto at = std::find(words.begin(), words.end(), extra);
  bool after_clip =
      at != words.end() && at != words.begin() && std::prev(at)->starts_with("--clip");
  if (after_clip && is_number(extra)) return hint_for_clip(extra);
  std::string name = extra.substr(0, extra.find('='));
  bool takes_recipe = verb.get_option_no_throw("--clip") != nullptr;
  if (takes_recipe && name.starts_with("--")) {
    std::string value = name.size() < extra.size() ? extra.substr(name.size() + 1) : "";
    if (value.empty() && at != words.end() && std::next(at) != words.end() &&
        !std::next(at)->starts_with("-")) {
      value = *std::next(at);
    }
    if (value.empty()) value = "VALUE";
    std::string word = name.substr(2);
    std::replace(word.begin(), word.end(), '_', '-');
    for (const Habit& h : kHabits) {
      if (h.word != word) continue;
      return fmt::format("'{}' is not an option; {}", name,
                         fmt::format(fmt::runtime(h.hint), value));
    }
    std::string argument = name.substr(2);
    std::replace(argument.begin(), argument.end(), '-', '_');
    if (!arg_meaning(argument).empty()) {
      return fmt::format("'{}' is not an option; {} is an argument of the step: write --set {}={}",
                         name, argument, argument, value);
    }
  }
  auto is_name = [&](const RecipeOption& row) { return name == fmt::format("--{}", row.name); };
  if (!takes_recipe && std::ranges::any_of(recipe_option_table(), is_name)) {
    return fmt::format("{}: `{}` takes no options of recipes; leave it out", name, verb.get_name());
  }
  std::vector<std::string> known;
  for (const CLI::Option* o : verb.get_options()) {
    for (const std::string& n : o->get_lnames()) known.push_back("--" + n);
  }
  return fmt::format("'{}' is not understood{}", extra, did_you_mean(name, known));
}

std::string hint_for_argument(const std::string& recipe, const std::string& argument) {
  if (!is_recipe(recipe)) return "";
  for (const RecipeOption& row : recipe_option_table()) {
    std::vector<std::string_view> values = row.values;
    values.insert(values.begin(), row.bare.empty() ? "true" : row.bare);
    for (std::string_view value : values) {
      try {
        RecipeOptions options;
        set_option(options, row.name, value);
        std::vector<std::string> names = arguments_of(recipe, options);
        if (std::find(names.begin(), names.end(), argument) == names.end()) continue;
        bool is_bare = value == "true" || value == row.bare;
        return is_bare ? fmt::format("; --{} adds it", row.name)
                       : fmt::format("; --{}={} adds it", row.name, value);
      } catch (const Error&) {
        continue;  // the recipe does not accept this option, or not alone
      }
    }
  }
  return "";
}

}  // namespace stepfuse::cli
