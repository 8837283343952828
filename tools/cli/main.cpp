// The `stepfuse` command line tool: parses the verb, runs it, and turns errors into exit codes. Knows
// CLI11 and the verbs.
#include <cstdio>
#include <iostream>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/near_names.hpp"
#include "ir/printable.hpp"
#include "tools/cli/recipe_flags.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kFooter = R"(Start here:
  stepfuse list                                       recipes and their options
  stepfuse dump adamw --grad f16 --master --clip      the step as a small program
  stepfuse explain adamw --loss-scale --clip          what fusing it saves
  stepfuse explore adamw --clip -o adamw.html         all its stages side by side
  stepfuse run adamw --clip --digest                  run it on seeded inputs
  stepfuse bench adamw --clip --params 16M            what it takes on this machine
  stepfuse env                                        what this machine has

Exit codes: 0 done · 1 a mistake in a file · 2 a mistake on the command line ·
3 no device or compiler, or it failed · 4 a bug in stepfuse
`stepfuse VERB --help` has examples for each verb.)";

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

// Errors in a file's text begin with file and line, as editors want them; others with our name.
int report(const Error& e) {
  bool in_text = e.kind() == ErrorKind::parse || e.kind() == ErrorKind::verify;
  complain(fmt::format("{}{}\n", in_text ? "" : "stepfuse: ", e.what()));
  return exit_code(e.kind());
}

int run_action(const Action& action) {
  try {
    return action();
  } catch (const Error& e) {
    return report(e);
  } catch (const std::bad_alloc&) {
    complain("stepfuse: out of memory\n");
    return kMachine;
  } catch (const std::exception& e) {
    // fmt's, where it could not print: finish_output() says so.
    if (std::ferror(stdout) == 0) complain(fmt::format("stepfuse: {}\n", printable(e.what())));
    return kBug;
  }
}

// CLI11's messages, and for a verb or option that does not exist the nearest that does.
int report_usage(const CLI::App& app, const CLI::ParseError& e,
                 const std::vector<std::string>& words) {
  if (e.get_exit_code() == 0) return app.exit(e) == 0 ? kOk : kUsage;
  std::string message = e.what();
  const CLI::App* verb = app.get_subcommands().empty() ? &app : app.get_subcommands()[0];
  if (verb == &app && !words.empty()) {
    std::vector<std::string> verbs;
    for (const CLI::App* s : app.get_subcommands({})) verbs.push_back(s->get_name());
    message = fmt::format("there is no verb '{}'{}", words[0], did_you_mean(words[0], verbs));
  } else if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr && !verb->remaining().empty()) {
    std::vector<std::string> known;
    for (const CLI::Option* o : verb->get_options()) {
      for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
    }
    std::string extra = verb->remaining()[0];
    message = fmt::format("'{}' is not understood{}", extra,
                          did_you_mean(extra.substr(0, extra.find('=')), known));
  }
  std::string name = verb == &app ? "stepfuse" : "stepfuse " + verb->get_name();
  complain(fmt::format("{}: {}\nTry `{} --help`.\n", name, printable(message), name));
  return kUsage;
}

int run(std::vector<std::string> words) {
  CLI::App app{"stepfuse: the optimizer step of mixed-precision training as one fused kernel",
               "stepfuse"};
  app.set_version_flag("--version", "stepfuse " STEPFUSE_VERSION);
  app.require_subcommand(1);
  app.footer(std::string(kFooter));
  app.get_formatter()->column_width(34);
  Action action;
  add_list(app, action);
  add_check(app, action);
  add_fmt(app, action);
  add_dump(app, action);
  add_explain(app, action);
  add_explore(app, action);
  add_run(app, action);
  add_bench(app, action);
  add_env(app, action);
  add_selftest(app, action);
  add_cache(app, action);
  add_convert(app, action);
  add_aot(app, action);
  add_replay(app, action);
  if (words.empty()) {
    std::cout << app.help();
    return kUsage;
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
