// `stepfuse check FILE…`: reads and verifies steps and formulas, and shows each fault at its place.
// Knows ir.
#include <memory>
#include <utility>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/program/unused.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kCheckFooter = R"(Examples:
  stepfuse check my_step.sf
  stepfuse check steps/*.sf my.opt
  stepfuse dump adamw | stepfuse check -

A fault is shown as file:line:column, the line, and a caret; the exit code is then 1. Values and
declarations that are never used are warnings.)";

// The result for one file: its step or its error, and warnings.
Json check_file(const std::string& file) {
  std::string text = read_text_file(file);
  Json result = {{"file", file}, {"ok", true}};
  try {
    bool formula = file.ends_with(".opt");
    std::string name = file == "-" ? "<stdin>" : file;
    Program p = formula ? make_recipe(parse_optimizer(text, name)) : parse(text, name);
    result["step"] = p.name;
    result["instructions"] = p.insts.size();
    result["buffers"] = p.buffers.size();
    result["warnings"] = Json::array();
    for (const Diagnostic& d : formula ? std::vector<Diagnostic>() : find_unused(p)) {
      std::string shown = render_at(name, text, d.loc, d.message);
      shown.replace(shown.find("error", name.size()), 5, "warning");
      result["warnings"].push_back(shown);
    }
  } catch (const Error& e) {
    result["ok"] = false;
    result["error"] = e.what();
  }
  return result;
}

void print_result(const Json& result) {
  if (!result["ok"].get<bool>()) {
    complain_of_fault(result["error"].get<std::string>() + '\n');
    return;
  }
  for (const Json& w : result["warnings"]) complain_of_fault(w.get<std::string>() + '\n');
  fmt::print("{}: step @{}, {} instructions, {} buffers: ok\n", result["file"].get<std::string>(),
             result["step"].get<std::string>(), result["instructions"].get<size_t>(),
             result["buffers"].get<size_t>());
}

int check(const std::vector<std::string>& files, bool json) {
  int code = kOk;
  Json all = Json::array();
  for (const std::string& file : files) {
    Json result = check_file(file);
    if (!result["ok"].get<bool>()) code = kFaultInFile;
    if (!json) print_result(result);
    all.push_back(std::move(result));
  }
  if (json) print_json(all);
  return code;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("check", "Verify .sf and .opt files and show each fault in its line");
  verb->footer(std::string(kCheckFooter));
  auto files = std::make_shared<std::vector<std::string>>();
  verb->add_option("files", *files,
                   "Steps (.sf) and formulas (.opt); - is a step on standard input")
      ->required()
      ->type_name("FILE.sf|FILE.opt…");
  auto json = std::make_shared<bool>(false);
  verb->add_flag("--json", *json, "Print JSON, with errors and warnings in it");
  verb->callback(
      [&action, files, json] { action = [files, json] { return check(*files, *json); }; });
}

}  // namespace stepfuse::cli
