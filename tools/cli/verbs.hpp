// The verbs of the command line tool. Each adds itself to the parser. If it is the verb on the
// command line, it stores its work in `action`. Knows CLI11.
#pragma once

#include <functional>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace stepfuse::cli {

// Exit codes for scripts; the help text lists them as well.
inline constexpr int kOk = 0;
// a mistake in a step's text or a layout, or in how they fit
inline constexpr int kFaultInFile = 1;
// a mistake on the command line, or a file that it names and that cannot be read or written
inline constexpr int kUsage = 2;
inline constexpr int kMachine = 3;  // no device, no compiler, or one of them failed
inline constexpr int kBug = 4;      // our bug

using Action = std::function<int()>;

void add_list(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_fmt(CLI::App& app, Action& action);
void add_dump(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_explore(CLI::App& app, Action& action);
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_env(CLI::App& app, Action& action);
void add_selftest(CLI::App& app, Action& action);
void add_cache(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_aot(CLI::App& app, Action& action);
void add_replay(CLI::App& app, Action& action);
void add_completion(CLI::App& app, Action& action);
void add_man(CLI::App& app, Action& action);

}  // namespace stepfuse::cli
