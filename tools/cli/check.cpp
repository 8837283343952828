// `stepfuse check FILE…`: reads and verifies steps and formulas, and shows each fault at its place. Knows ir.
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/recipes.hpp>

#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kFooter = R"(Examples:
  stepfuse check my_step.sf
  stepfuse check steps/*.sf my.opt
  stepfuse dump adamw | stepfuse check -

A fault is shown as file:line:column, the line, and a caret; the exit code is then 1.)";

int check(const std::vector<std::string>& files) {
  int code = kOk;
  for (const std::string& file : files) {
    std::string text = read_text_file(file);
    try {
      Program p = file.ends_with(".opt") ? make_recipe(parse_optimizer(text, file))
                                         : parse(text, file == "-" ? "<stdin>" : file);
      fmt::print("{}: step @{}, {} instructions, {} buffers: in order\n", file, p.name,
                 p.insts.size(), p.buffers.size());
    } catch (const Error& e) {
      complain(fmt::format("{}\n", e.what()));
      code = kFaultInFile;
    }
  }
  return code;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("check", "Verify steps; show each fault at its place");
  verb->footer(std::string(kFooter));
  auto files = std::make_shared<std::vector<std::string>>();
  verb->add_option("files", *files, "Steps and formulas as text; - is standard input, a step")
      ->required()
      ->type_name("FILE.sf|FILE.opt…");
  verb->callback([&action, files] { action = [files] { return check(*files); }; });
}

}  // namespace stepfuse::cli
