// `stepfuse check FILE…`: reads and verifies steps and formulas, and shows each fault at its place.
// Knows ir.
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/unused.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kFooter = R"(Examples:
  stepfuse check my_step.sf
  stepfuse check steps/*.sf my.opt
  stepfuse dump adamw | stepfuse check -

A fault is shown as file:line:column, the line, and a caret; the exit code is then 1. Values and
declarations that are never used are warnings.)";

int check(const std::vector<std::string>& files) {
  int code = kOk;
  for (const std::string& file : files) {
    std::string text = read_text_file(file);
    try {
      bool formula = file.ends_with(".opt");
      std::string name = file == "-" ? "<stdin>" : file;
      Program p = formula ? make_recipe(parse_optimizer(text, name)) : parse(text, name);
      for (const Diagnostic& d : formula ? std::vector<Diagnostic>() : find_unused(p)) {
        std::string shown = render_at(name, text, d.loc, d.message);
        shown.replace(shown.find("error", name.size()), 5, "warning");
        complain(shown + '\n');
      }
      fmt::print("{}: step @{}, {} instructions, {} buffers: ok\n", file, p.name, p.insts.size(),
                 p.buffers.size());
    } catch (const Error& e) {
      complain(fmt::format("{}\n", e.what()));
      code = kFaultInFile;
    }
  }
  return code;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* verb =
      app.add_subcommand("check", "Verify .sf and .opt files and show each fault in its line");
  verb->footer(std::string(kFooter));
  auto files = std::make_shared<std::vector<std::string>>();
  verb->add_option("files", *files,
                   "Steps (.sf) and formulas (.opt); - is a step on standard input")
      ->required()
      ->type_name("FILE.sf|FILE.opt…");
  verb->callback([&action, files] { action = [files] { return check(*files); }; });
}

}  // namespace stepfuse::cli
