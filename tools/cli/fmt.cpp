// `stepfuse fmt FILE…`: formats .sf and .opt files. Knows ir.
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/text_format.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kFmtFooter = R"(Examples:
  stepfuse fmt my.opt my_step.sf        formats the files in place and names those that changed
  stepfuse fmt --check steps/*.sf       only names them; the exit code is then 1
  stepfuse list lamb --text | stepfuse fmt --formula -

Only indentation, blanks and empty lines change. Comments and the meaning stay.)";

struct FmtArguments {
  std::vector<std::string> files;
  bool check = false;
  bool formula = false;
};

int format(const FmtArguments& options) {
  int code = kOk;
  for (const std::string& file : options.files) {
    std::string text = read_text_file(file);
    bool standard_input = file == "-";
    bool formula = file.ends_with(".opt") || (standard_input && options.formula);
    try {
      std::string name = standard_input ? "<stdin>" : file;
      std::string formed = formula ? format_formula(text, name) : format_step(text, name);
      if (standard_input && !options.check) {
        fmt::print("{}", formed);
      } else if (formed != text) {
        if (options.check)
          code = kFaultInFile;
        else
          write_file(file, formed);
        fmt::print("{}\n", name);
      }
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::parse) throw;
      complain_of_fault(fmt::format("{}\n", e.what()));
      code = kFaultInFile;
    }
  }
  return code;
}

}  // namespace

void add_fmt(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("fmt", "Format .sf and .opt files");
  verb->footer(std::string(kFmtFooter));
  auto options = std::make_shared<FmtArguments>();
  verb->add_option("files", options->files, "Steps (.sf) and formulas (.opt); - is standard input")
      ->required()
      ->type_name("FILE.sf|FILE.opt…");
  verb->add_flag("--check", options->check, "Change nothing; exit code 1 if a file would change");
  verb->add_flag("--formula", options->formula, "Standard input is a formula, not a step");
  verb->callback([&action, options] { action = [options] { return format(*options); }; });
}

}  // namespace stepfuse::cli
