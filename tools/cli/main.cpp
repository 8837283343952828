// The `stepfuse` command line tool: parses the verb, runs it, and turns errors into exit codes. Knows
// CLI11 and the verbs.
#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/text/near_names.hpp"
#include "ir/text/printable.hpp"
#include "tools/cli/completion.hpp"
#include "tools/cli/help.hpp"
#include "tools/cli/hints.hpp"
#include "tools/cli/recipe_flags.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kMainFooter = R"(Start here:
  stepfuse list                                       list recipes and their options
  stepfuse dump adamw --grad f16 --master --clip      print the step as a small program
  stepfuse explain adamw --loss-scale --clip          show what fusing it saves
  stepfuse explore adamw --clip -o adamw.html         show all its stages side by side
  stepfuse run adamw --clip --digest                  run it on seeded inputs
  stepfuse bench adamw --clip --params 16M            time it on this machine
  stepfuse env                                        show what this machine has

Exit codes: 0 done · 1 mistake in a file · 2 mistake on the command line, or a file that cannot be read or written ·
3 no device or compiler, or it failed · 4 bug in stepfuse
`stepfuse VERB -h` lists a verb's options, `stepfuse VERB --help` adds examples.)";

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::parse:
    case ErrorKind::verify:
    case ErrorKind::bind:
      return kFaultInFile;
    case ErrorKind::usage:
      return kUsage;
    case ErrorKind::compile:
    case ErrorKind::device:
      return kMachine;
  }
  return kBug;
}

// Errors in a file's text start with file and line, as editors expect; others start with our name.
int report(const Error& e) {
  bool in_text = e.kind() == ErrorKind::parse || e.kind() == ErrorKind::verify;
  complain_of_fault(fmt::format("{}{}\n", in_text ? "" : "stepfuse: ", e.what()));
  return exit_code(e.kind());
}

int run_action(const Action& action) {
  try {
    return action();
  } catch (const Error& e) {
    return report(e);
  } catch (const std::bad_alloc&) {
    complain_of_fault("stepfuse: out of memory\n");
    return kMachine;
  } catch (const std::exception& e) {
    // fmt could not print; finish_output() reports it
    if (std::ferror(stdout) == 0)
      complain_of_fault(fmt::format("stepfuse: {}\n", printable(e.what())));
    return kBug;
  }
}

// Prints CLI11's message, or a better one for an unknown verb or option.
int report_usage(const CLI::App& app, const CLI::ParseError& e,
                 const std::vector<std::string>& words) {
  if (dynamic_cast<const CLI::CallForAllHelp*>(&e) != nullptr) {
    fmt::print("{}", app.help("", CLI::AppFormatMode::All));
    return kOk;
  }
  if (e.get_exit_code() == 0) return app.exit(e) == 0 ? kOk : kUsage;
  std::string message = e.what();
  const CLI::App* verb = app.get_subcommands().empty() ? &app : app.get_subcommands()[0];
  if (verb == &app && !words.empty()) {
    std::vector<std::string> verbs;
    for (const CLI::App* s : app.get_subcommands({})) verbs.push_back(s->get_name());
    std::string near = is_recipe(words[0])
                           ? fmt::format("; to run the recipe, write `stepfuse run {}`", words[0])
                           : did_you_mean(words[0], verbs);
    message = fmt::format("there is no verb '{}'{}", words[0], near);
  } else if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr && !verb->remaining().empty()) {
    message = explain_extra(*verb, words);
  }
  std::string name = verb == &app ? "stepfuse" : "stepfuse " + verb->get_name();
  complain_of_fault(fmt::format("{}: {}\nTry `{} --help`.\n", name, printable(message), name));
  return kUsage;
}

// `stepfuse help`, `help VERB` and `help TOPIC`.
int help(CLI::App& app, const std::vector<std::string>& words) {
  if (words.empty()) {
    fmt::print("{}", app.help("", CLI::AppFormatMode::All));
    return kOk;
  }
  std::vector<std::string> known;
  for (const CLI::App* verb : app.get_subcommands({})) {
    known.push_back(verb->get_name());
    if (words[0] != verb->get_name()) continue;
    fmt::print("{}", verb->help("stepfuse", CLI::AppFormatMode::All));
    return kOk;
  }
  if (const HelpTopic* topic = find_topic(words[0])) {
    fmt::print("{}", topic->text());
    return kOk;
  }
  for (const HelpTopic& t : help_topics()) known.emplace_back(t.name);
  complain_of_fault(fmt::format("stepfuse: there is no help on '{}'{}\nTry `stepfuse help`.\n",
                                printable(words[0]), did_you_mean(words[0], known)));
  return kUsage;
}

struct Verb {
  std::string_view name;
  void (*add)(CLI::App&, Action&);
};
constexpr Verb kVerbs[] = {
    {"list", add_list},         {"check", add_check},     {"fmt", add_fmt},
    {"dump", add_dump},         {"explain", add_explain}, {"explore", add_explore},
    {"run", add_run},           {"bench", add_bench},     {"env", add_env},
    {"selftest", add_selftest}, {"cache", add_cache},     {"convert", add_convert},
    {"aot", add_aot},           {"replay", add_replay},   {"completion", add_completion},
    {"man", add_man},
};

// Adds the verb that the command line begins with, or all verbs if it begins with none or with `man`, which describes
// them all. Eight verbs have the options of all recipes, which take time to add.
void add_verbs(CLI::App& app, Action& action, std::string_view first) {
  auto is_first = [&](const Verb& verb) { return verb.name == first; };
  bool all = first == "man" || std::ranges::none_of(kVerbs, is_first);
  for (const Verb& verb : kVerbs) {
    if (all || is_first(verb)) verb.add(app, action);
  }
}

int run(std::vector<std::string> words) {
  CLI::App app{"stepfuse: the optimizer step of mixed-precision training as one fused kernel",
               "stepfuse"};
  app.set_version_flag("-V,--version", "stepfuse " STEPFUSE_VERSION);
  app.require_subcommand(1);
  app.footer(std::string(kMainFooter));
  app.formatter(make_help_formatter());
  app.set_help_flag("-h", "List options");
  app.set_help_all_flag("--help", "List options, with examples and notes");
  Action action;
  add_verbs(app, action, words.empty() ? "" : words[0]);
  if (words.empty()) {
    fmt::print("{}", app.help("", CLI::AppFormatMode::All));
    return kUsage;
  }
  std::vector<std::string> rest(words.begin() + 1, words.end());
  if (words[0] == "help") return help(app, rest);
  if (words[0] == "complete") {  // for the scripts that `completion` prints
    for (const std::string& word : complete(app, rest)) fmt::print("{}\n", word);
    return kOk;
  }
  words = normalise_recipe_flags(std::move(words));
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());
    app.parse(reversed);
  } catch (const CLI::ParseError& e) {
    return report_usage(app, e, words);
  }
  return run_action(action);
}

}  // namespace
}  // namespace stepfuse::cli

int main(int argc, char** argv) {
  using namespace stepfuse::cli;
  claim_standard_streams();
  return finish_output(run(std::vector<std::string>(argv + 1, argv + argc)));
}
