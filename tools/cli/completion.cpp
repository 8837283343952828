// `stepfuse completion SHELL` prints a script that asks `stepfuse complete WORDS…`. Knows CLI11, the
// recipes and the help's topics.
#include "tools/cli/completion.hpp"

#include <algorithm>
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/recipes.hpp>

#include "tools/cli/help.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kCompletionFooter = R"(Examples:
  stepfuse completion bash > ~/.local/share/bash-completion/completions/stepfuse
  stepfuse completion zsh > ~/.zfunc/_stepfuse           a folder of $fpath
  stepfuse completion fish > ~/.config/fish/completions/stepfuse.fish

`cmake --install` installs all three.)";

// bash splits words at "=". The script joins them again and removes the part before it.
constexpr std::string_view kBash =
    R"SH(# Completion of stepfuse for bash; written by `stepfuse completion bash`.
_stepfuse() {
  local word words=() joined=0
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $word == = || $joined == 1 ]] && ((${#words[@]})); then
      words[-1]+=$word
      [[ $word == = ]] && joined=1 || joined=0
    else
      words+=("$word")
    fi
  done
  local current=${words[-1]} cut=""
  [[ $current == --*=* ]] && cut=${current%%=*}=
  COMPREPLY=()
  while IFS= read -r word; do
    COMPREPLY+=("${word#"$cut"}")
  done < <(stepfuse complete "${words[@]}" 2>/dev/null)
}
complete -o default -F _stepfuse stepfuse
)SH";

constexpr std::string_view kZsh = R"SH(#compdef stepfuse
# Completion of stepfuse for zsh; written by `stepfuse completion zsh`.
_stepfuse() {
  local -a found
  found=("${(@f)$(stepfuse complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$found" ]]; then
    compadd -a found
  else
    _files
  fi
}
if [[ $funcstack[1] == _stepfuse ]]; then _stepfuse "$@"; else compdef _stepfuse stepfuse; fi
)SH";

constexpr std::string_view kFish =
    R"SH(# Completion of stepfuse for fish; written by `stepfuse completion fish`.
function __stepfuse_complete
    set -l words (commandline -opc) (commandline -ct)
    stepfuse complete $words[2..-1] 2>/dev/null
end
complete -c stepfuse -a '(__stepfuse_complete)'
)SH";

// The words of "a|b|c"; none for types such as FILE and N..N.
std::vector<std::string> words_of(std::string type) {
  type.erase(std::remove_if(type.begin(), type.end(), [](char c) { return c == '[' || c == ']'; }),
             type.end());
  std::vector<std::string> words;
  if (type.find('|') == std::string::npos) return words;
  for (size_t at = 0; at <= type.size();) {
    size_t end = std::min(type.find('|', at), type.size());
    std::string word = type.substr(at, end - at);
    bool is_word = !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    });
    if (!is_word) return {};
    words.push_back(std::move(word));
    at = end + 1;
  }
  return words;
}

std::vector<std::string> values_of(const CLI::Option& option) {
  if (option.get_type_name().starts_with("RECIPE")) {
    std::vector<std::string> names;
    for (const RecipeInfo& r : list_recipes()) names.emplace_back(r.name);
    return names;
  }
  return words_of(option.get_type_name());
}

const CLI::Option* find_option(const CLI::App& verb, const std::string& name) {
  return name.starts_with("-") ? verb.get_option_no_throw(name) : nullptr;
}

bool takes_value(const CLI::Option& option) {
  return option.get_expected_min() > 0 && option.get_type_size() != 0;
}

// A recipe option with a value in brackets can stand alone, so no value is expected after it.
bool needs_value(const CLI::Option& option) {
  return takes_value(option) && !option.get_type_name().empty() &&
         !option.get_type_name().starts_with("[");
}

std::vector<std::string> option_names(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* o : verb.get_options()) {
    for (const std::string& n : o->get_lnames()) names.push_back("--" + n);
  }
  return names;
}

std::vector<std::string> candidates(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> verbs;
  const CLI::App* verb = nullptr;
  for (const CLI::App* v : app.get_subcommands({})) {
    if (!v->get_group().empty()) verbs.push_back(v->get_name());
    if (words.size() > 1 && v->get_name() == words[0]) verb = v;
  }
  const std::string& last = words.back();
  if (words.size() == 1) {
    verbs.emplace_back("help");
    return last.starts_with("-") ? option_names(app) : verbs;
  }
  if (words[0] == "help") {
    if (words.size() > 2) return {};
    for (const HelpTopic& t : help_topics()) verbs.emplace_back(t.name);
    return verbs;
  }
  if (verb == nullptr) return {};
  if (size_t equals = last.find('='); last.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = find_option(*verb, last.substr(0, equals));
    std::vector<std::string> values = option ? values_of(*option) : std::vector<std::string>();
    for (std::string& v : values) v = last.substr(0, equals + 1) + v;
    return values;
  }
  if (last.starts_with("-")) return option_names(*verb);
  const CLI::Option* before = find_option(*verb, words[words.size() - 2]);
  if (before != nullptr && needs_value(*before)) return values_of(*before);
  for (const CLI::Option* o : verb->get_options()) {
    if (o->get_positional()) return values_of(*o);
  }
  return {};
}

int print_script(const std::string& shell) {
  fmt::print("{}", shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
  return kOk;
}

}  // namespace

std::vector<std::string> complete(const CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> found =
      candidates(app, words.empty() ? std::vector<std::string>{""} : words);
  const std::string last = words.empty() ? "" : words.back();
  std::erase_if(found, [&](const std::string& c) { return !c.starts_with(last); });
  return found;
}

void add_completion(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("completion", "Print a completion script for a shell");
  verb->footer(std::string(kCompletionFooter));
  auto shell = std::make_shared<std::string>();
  verb->add_option("shell", *shell, "The shell")
      ->required()
      ->type_name("bash|zsh|fish")
      ->check(one_of({"bash", "zsh", "fish"}));
  verb->callback([&action, shell] { action = [shell] { return print_script(*shell); }; });
}

}  // namespace stepfuse::cli
