// --set NAME=VALUE, checked against the step's arguments. Knows CLI11 and programs.
#include "tools/cli/settings.hpp"

#include <algorithm>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/ir.hpp>

#include "ir/text/near_names.hpp"
#include "ir/text/words.hpp"
#include "tools/cli/hints.hpp"

namespace stepfuse::cli {
namespace {

// "lr=0.01", "lr[1]=0.01", or "lr_scale[head.weight]=0.1".
ArgSetting parse_setting(const std::string& text, const Program& program) {
  auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::usage, fmt::format("--set {}: {}", text, what));
  };
  size_t equals = text.rfind('=');
  if (equals == std::string::npos)
    fail("write NAME=VALUE, NAME[GROUP]=VALUE or NAME[TENSOR]=VALUE");
  ArgSetting s{.name = text.substr(0, equals)};
  auto value = parse_number<double>(std::string_view(text).substr(equals + 1));
  if (!value) fail("the value is not a number");
  s.value = *value;
  size_t bracket = s.name.find('[');
  if (bracket != std::string::npos) {
    if (s.name.back() != ']' || s.name.size() < bracket + 3) {
      fail("the brackets must hold a group's number or a tensor's name, as in lr[1]=0.01");
    }
    s.tensor = s.name.substr(bracket + 1, s.name.size() - bracket - 2);
    if (auto member = parse_number<int>(s.tensor); member && *member >= 0) {
      s.member = *member;
      s.tensor.clear();
    }
    s.name.resize(bracket);
  }
  if (program.find_arg(s.name) < 0) {
    std::vector<std::string> names;
    for (const Arg& a : program.args) names.push_back(a.name);
    std::string near = hint_for_argument(program.name, s.name);
    if (near.empty()) near = did_you_mean(s.name, names);
    fail(fmt::format("step @{} has no argument '{}'{}", program.name, s.name, near));
  }
  return s;
}

// Arguments without a default would silently be 0.
void check_all_set(const Program& program, const std::vector<ArgSetting>& settings) {
  for (const Arg& a : program.args) {
    bool set = std::any_of(settings.begin(), settings.end(),
                           [&](const ArgSetting& s) { return s.name == a.name; });
    if (a.fallback || set) continue;
    throw Error(ErrorKind::usage, fmt::format("argument %{} of step @{} has no default: give it "
                                              "with --set {}=VALUE",
                                              a.name, program.name, a.name));
  }
}

}  // namespace

void add_settings(CLI::App& verb, std::vector<std::string>& set) {
  verb.add_option("--set", set,
                  "An argument: lr=0.01, for one group lr[1]=0.01, for one tensor "
                  "lr_scale[head.weight]=0.1")
      ->type_name("NAME=VALUE");
}

std::vector<ArgSetting> parse_settings(const std::vector<std::string>& set,
                                       const Program& program) {
  std::vector<ArgSetting> settings;
  for (const std::string& s : set) settings.push_back(parse_setting(s, program));
  check_all_set(program, settings);
  return settings;
}

}  // namespace stepfuse::cli
