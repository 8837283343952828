// Runs the cases of filetests. Knows ir, the recipes and the compiler.
#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/c/emit.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/embedded.hpp"
#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/plan/lower.hpp"
#include "compiler/schedule/schedule.hpp"
#include "ir/program/verifier.hpp"
#include "tests/filetests/filetest.hpp"
#include "tests/support/expected_text.hpp"
#include "tests/support/signatures.hpp"

namespace stepfuse::testing {
namespace {

using Kind = Expectation::Kind;

// The text after RUN: "pass bind dtypes | f16 bf16 f32 | f32 bf16 f32".
struct Command {
  std::string verb;
  std::string rest;                              // up to the first '|'
  std::vector<std::vector<DType>> signatures{};  // the dtypes behind each '|'

  std::vector<std::string> words() const {
    std::istringstream in(rest);
    return {std::istream_iterator<std::string>(in), {}};
  }
};

Command command_of(std::string run) {
  auto next_part = [&] {
    size_t end = std::min(run.find(" | "), run.size());
    std::string part = run.substr(0, end);
    run.erase(0, end + 3);
    return part;
  };
  Command command;
  std::string part = next_part();
  size_t end = std::min(part.find(' '), part.size());
  command.verb = part.substr(0, end);
  command.rest = part.substr(std::min(end + 1, part.size()));
  while (!run.empty()) {
    std::istringstream names(next_part());
    command.signatures.emplace_back();
    for (std::string word; names >> word;) {
      command.signatures.back().push_back(dtype_from_name(word).value());
    }
  }
  return command;
}

// One dtype stands for every buffer that may have several.
std::vector<Signature> signatures_for(const Program& p, const Command& command) {
  if (command.signatures.empty() && command.verb != "pass" && command.verb != "optimize")
    return signatures_of(p);
  std::vector<Signature> all;
  for (const std::vector<DType>& given : command.signatures) {
    if (given.size() > 1) {
      all.push_back(given);
      continue;
    }
    for (const Signature& s : signatures_of(p, given)) all.push_back(s);
  }
  return all;
}

struct Fault {
  int line = 0, column = 0, rule = 0;
  std::string message;
};

struct Outcome {
  std::vector<Fault> faults;
  std::string printed;                  // the result
  std::vector<std::string> broken;      // what must hold of every result, and does not
  std::optional<Program> program;       // what sections are made of
  std::vector<Signature> signatures{};  // of it
};

Program run_pass(const Program& p, const Command& command) {
  std::vector<Signature> signatures = signatures_for(p, command);
  if (command.verb == "optimize") return optimize(p, signatures);
  for (const Pass& pass : optimization_passes()) {
    if (pass.name == command.rest) return pass.run(p, signatures);
  }
  throw std::runtime_error("there is no pass '" + command.rest + "'");
}

void check_result(const Program& after, const Program& again, Outcome* outcome) {
  if (!find_violations(after).empty()) outcome->broken.emplace_back("the result is not valid");
  if (again != after) outcome->broken.emplace_back("a second run changes the result");
  if (parse(print(after)) != after) outcome->broken.emplace_back("the printed result differs");
}

// The first violation must also be the first error of parse(), with rule and caret.
void check_message(const std::string& text, const Fault& first, Outcome* outcome) {
  std::string message;
  try {
    parse(text, "f.sf");
  } catch (const Error& e) {
    message = e.what();
  }
  std::string place = first.line == 0 ? "f.sf: error: " : fmt::format("f.sf:{}:", first.line);
  if (!message.starts_with(place) ||
      message.find(fmt::format("[V{}]", first.rule)) == std::string::npos ||
      (first.line != 0 && message.find('^') == std::string::npos)) {
    outcome->broken.push_back("parse() reports something else: " + message);
  }
}

RecipeOptions options_of(const std::vector<std::string>& words) {
  RecipeOptions options;
  for (const std::string& word : words) {
    size_t equals = std::min(word.find('='), word.size());
    std::string name = word.substr(2, equals - 2);
    set_option(options, name, equals < word.size() ? word.substr(equals + 1) : "true");
  }
  return options;
}

Outcome run_text(const std::string& text, const Command& command) {
  Outcome outcome;
  auto keep = [&](const Program& p) {
    outcome.printed = print(p);
    outcome.signatures = signatures_for(p, command);
    outcome.program = p;
  };
  try {
    if (command.verb == "verify") {
      for (const Diagnostic& d : find_violations(parse_unverified(text))) {
        outcome.faults.push_back({d.loc.line, d.loc.column, d.rule, d.message});
      }
      if (!outcome.faults.empty()) check_message(text, outcome.faults[0], &outcome);
    } else if (command.verb == "pass" || command.verb == "optimize") {
      Program after = run_pass(parse(text), command);
      check_result(after, run_pass(after, command), &outcome);
      keep(after);
    } else if (command.verb == "formula") {
      keep(make_recipe(parse_optimizer(text, "f.opt"), options_of(command.words())));
    } else if (command.verb == "recipe") {
      std::vector<std::string> words = command.words();
      keep(make_recipe(words.at(0), options_of({words.begin() + 1, words.end()})));
    } else if (command.verb == "parse" || command.verb == "emit") {
      Program p = parse(text, "f.sf");
      check_result(p, p, &outcome);
      keep(p);
    } else {
      throw std::runtime_error("RUN: unknown command '" + command.verb + "'");
    }
  } catch (const Error& e) {
    std::string message = e.what();
    outcome.faults.push_back({e.loc().line, e.loc().column, 0, message});
  }
  return outcome;
}

// Lines that are blank or comments hold nothing.
bool is_blank(const std::string& text) {
  size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos || text.compare(begin, 2, "//") == 0;
}

// The text of a case, its lines where they stand in the file. `only`: of the lines behind "each".
std::string text_of(const FileTest& test, const FileCase& c, int only,
                    const std::function<std::string(const FileLine&)>& of) {
  std::string body;
  for (const FileLine& line : c.lines) body += of(line) + '\n';
  if (only >= 0) {
    auto skipped = c.first_each + only - c.first_line - static_cast<int>(c.lines.size());
    body += std::string(static_cast<size_t>(skipped), '\n');
    body += of(c.each[static_cast<size_t>(only)]) + '\n';
  }
  std::string before(static_cast<size_t>(c.first_line - 1), '\n');
  size_t first = 0;
  while (first < body.size() && (body[first] == '\n' || body.compare(first, 2, "//") == 0)) {
    first = body.find('\n', first) + 1;
  }
  bool formula = test.path.extension() == ".opt";
  if (body.compare(first, 5, "step ") == 0 || body.compare(first, 10, "optimizer ") == 0)
    return before + body;
  before.back() = ' ';
  return before + (formula ? "optimizer o \"\" {\n" : "step @t {\n") + body + "}\n";
}

// "%x = load @w : [f32]" -> "%x"; "store @w, %x" -> "store @w": how lines are found again.
std::string key_of(std::string_view statement) {
  size_t begin = statement.find_first_not_of(' ');
  statement.remove_prefix(std::min(begin, statement.size()));
  size_t end = statement.starts_with('%') ? statement.find(' ') : statement.find_first_of(",:");
  return std::string(statement.substr(0, end));
}
std::vector<std::string> statements_of(const std::string& printed) {
  std::istringstream in(printed);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("  ")) out.push_back(line.substr(2));
  }
  return out;
}

class Run {
 public:
  Run(const FileTest& test, FileCase& c, bool update)
      : test_(test), case_(c), command_(command_of(c.run)), update_(update) {}

  std::string run() {
    if (case_.each.empty()) {
      check(-1);
    } else {
      for (size_t i = 0; i < case_.each.size(); ++i) {
        if (!is_blank(case_.each[i].text)) check(static_cast<int>(i));
      }
    }
    return std::move(found_);
  }

 private:
  void fault(int line, const std::string& what) {
    found_ += fmt::format("{}:{}: {}\n", test_.path.string(), line, what);
  }

  void check(int only) {
    Outcome outcome =
        run_text(text_of(test_, case_, only, [](const FileLine& l) { return l.text; }), command_);
    int at = only < 0 ? case_.first_line : case_.first_each + only;
    for (const std::string& what : outcome.broken) fault(at, what);
    check_faults(only, outcome);
    if (!outcome.faults.empty()) return;
    for_lines(only, [&](int number, FileLine& line) { check_contents(number, line, outcome); });
    if (command_.verb == "pass" || command_.verb == "optimize") check_statements(only, at, outcome);
    check_sections(outcome);
  }

  void for_lines(int only, const std::function<void(int, FileLine&)>& f) {
    int number = case_.first_line;
    for (FileLine& line : case_.lines) f(number++, line);
    if (only >= 0) f(case_.first_each + only, case_.each[static_cast<size_t>(only)]);
  }

  void check_faults(int only, const Outcome& outcome) {
    std::vector<Fault> left = outcome.faults;
    for_lines(only, [&](int number, FileLine& line) {
      std::erase_if(line.expected, [&](const Expectation& e) {
        if (e.kind != Kind::error) return false;
        auto found = std::find_if(left.begin(), left.end(), [&](const Fault& f) {
          return (f.line == number || (f.line == 0 && e.column == 0)) && f.column == e.column &&
                 (e.rule == 0 || f.rule == e.rule) && f.message.find(e.text) != std::string::npos;
        });
        if (found != left.end()) {
          left.erase(found);
          return false;
        }
        if (!update_) {
          fault(number, fmt::format("no such error: column {} \"{}\"", e.column, e.text));
        }
        return update_;
      });
      for (const Fault& f : left) {
        if (!update_ || f.line != number) continue;
        line.expected.push_back({Kind::error, first_line(f.message), f.column, f.rule});
      }
      std::erase_if(left, [&](const Fault& f) { return update_ && f.line == number; });
    });
    for (const Fault& f : left) {
      fault(f.line, fmt::format("unexpected error: column {} {}", f.column, f.message));
    }
  }
  // Without the place, which the annotation has.
  static std::string first_line(const std::string& message) {
    std::string line = message.substr(0, message.find('\n'));
    size_t at = line.find("error: ");
    return at == std::string::npos ? line : line.substr(at + 7);
  }

  void check_contents(int number, const FileLine& line, const Outcome& outcome) {
    for (const Expectation& e : line.expected) {
      bool contained = outcome.printed.find(e.text) != std::string::npos;
      if (e.kind == Kind::contains && !contained)
        fault(number, fmt::format("not in the result: {}\n{}", e.text, outcome.printed));
      if (e.kind == Kind::contains_not && contained)
        fault(number, fmt::format("in the result: {}\n{}", e.text, outcome.printed));
    }
  }

  // The text with what each line becomes must be the pass's result.
  void check_statements(int only, int at, const Outcome& outcome) {
    if (update_) note_statements(only, outcome);
    auto becomes = [](const FileLine& line) {
      for (const Expectation& e : line.expected) {
        if (e.kind == Kind::becomes) return e.text;
      }
      return line.text;
    };
    std::string expected = print(parse_unverified(text_of(test_, case_, only, becomes)));
    std::string difference = line_difference(expected, outcome.printed);
    if (!difference.empty()) fault(at, difference);
  }

  // Gives each statement of the result to the line that has the same key, or to the next such line.
  // The lines before "each" are those of many cases, and keep what they have.
  void note_statements(int only, const Outcome& outcome) {
    std::vector<std::string> left = statements_of(outcome.printed);
    for_lines(only, [&](int number, FileLine& line) {
      if (is_blank(line.text)) return;
      std::set<std::string> keys;
      for (const std::string& statement : split_line(line.text)) keys.insert(key_of(statement));
      auto last = std::find_if(left.rbegin(), left.rend(),
                               [&](const std::string& s) { return keys.contains(key_of(s)); });
      std::vector<std::string> made(left.begin(), last.base());
      left.erase(left.begin(), last.base());
      if (only >= 0 && number < case_.first_each) return;
      std::erase_if(line.expected, [](const Expectation& e) { return e.kind == Kind::becomes; });
      if (made == split_line(line.text)) return;
      line.expected.push_back(
          {.kind = Kind::becomes, .text = fmt::format("{}", fmt::join(made, "  "))});
    });
  }
  // Statements of one line stand two spaces apart.
  static std::vector<std::string> split_line(const std::string& text) {
    std::vector<std::string> statements;
    for (size_t at = text.find_first_not_of(' '); at < text.size();) {
      size_t end = std::min(text.find("  ", at), text.size());
      statements.push_back(text.substr(at, end - at));
      at = text.find_first_not_of(' ', end);
    }
    return statements;
  }

  void check_sections(const Outcome& outcome) {
    for (FileSection& s : case_.sections) {
      std::string text = section(s.stage, outcome);
      if (text.empty() || text.back() != '\n') text += '\n';
      if (update_) s.text = text;
      std::string difference = line_difference(s.text, text);
      if (difference.empty()) continue;
      fault(case_.first_line, fmt::format("{} of '{}': {}If this is right: "
                                          "STEPFUSE_UPDATE_FILETESTS=1 build/bin/filetests_test",
                                          s.stage, case_.title, difference));
    }
  }

  // `stage` is "plan", "schedule unfused", or "vectors fused 512", with the bits of a vector.
  std::string section(const std::string& stage, const Outcome& outcome) const {
    std::istringstream words(stage);
    std::string kind, form_name = "fused", vector_bits = "256";
    words >> kind >> form_name >> vector_bits;
    const Program& p = *outcome.program;
    if (kind == "ir") return print(p);
    if (kind == "passes") {
      PassTrace trace;
      optimize(p, outcome.signatures, &trace);
      return print(trace);
    }
    std::optional<Form> form = form_from_name(form_name);
    if (!form) throw std::runtime_error("//>>> " + stage + ": there is no such form");
    Schedule schedule = make_schedule(optimize(p, outcome.signatures),
                                      {.form = *form, .signatures = outcome.signatures});
    if (kind == "schedule") return print(schedule);
    KernelPlan plan = lower(schedule);
    if (kind == "plan") return print(plan);
    if (kind == "c") return without_prelude(emit_c(plan));
    if (kind == "cuda") return without_prelude(emit_cuda(plan));
    std::map<std::string, CpuTarget> targets = {
        {"256", {.cpu = "x86-64-v3", .features = "+avx2,+f16c,+fma", .vector_bits = 256}},
        {"512", {.cpu = "x86-64-v4", .features = "+avx2,+f16c,+fma,+avx512f", .vector_bits = 512}}};
    auto target = targets.find(vector_bits);
    if ((kind != "llvm" && kind != "vectors") || target == targets.end()) {
      throw std::runtime_error("//>>> " + stage + ": there is no such stage");
    }
    std::string phases = phases_of(emit_llvm(plan, target->second));
    return kind == "llvm" ? phases : vector_loop_of(phases);
  }

  // The preludes have tests of their own.
  static std::string without_prelude(std::string text) {
    for (auto [what, name] :
         {std::pair{embedded_abi(), "abi.hpp"}, std::pair{embedded_prelude(), "prelude.cuh"},
          std::pair{embedded_c_prelude(), "prelude.h"}}) {
      if (size_t at = text.find(what); at != std::string::npos) {
        text.replace(at, what.size(), fmt::format("// … {} …\n", name));
      }
    }
    return text;
  }
  // The functions that walk chunks; the others are the same in every module.
  static std::string phases_of(const std::string& module) {
    std::string kept;
    for (size_t at = 0; (at = module.find("define void @sf_phase_", at)) != std::string::npos;) {
      size_t end = module.find("\n}\n", at) + 3;
      kept += module.substr(at, end - at);
      at = end;
    }
    return kept;
  }

  // The body of the first loop over vectors.
  static std::string vector_loop_of(const std::string& phases) {
    size_t begin = phases.find('\n', phases.find("i.loop:")) + 1;
    return phases.substr(begin, phases.find("  ;\n  %next", begin) - begin);
  }

  const FileTest& test_;
  FileCase& case_;
  Command command_;
  bool update_;
  std::string found_;
};

}  // namespace

std::string run_case(const FileTest& test, FileCase& c, bool update) {
  return Run(test, c, update).run();
}

}  // namespace stepfuse::testing
