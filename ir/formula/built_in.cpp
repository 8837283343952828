// The optimizers that come with the library. Knows ir and fmt.
#include "ir/formula/built_in.hpp"

#include <fmt/format.h>

#include "ir/formula/parser.hpp"

namespace stepfuse::formula {

std::optional<Formula> parse_built_in(std::string_view name) {
  for (const Embedded& e : embedded_formulas()) {
    if (e.name == name) return parse_formula(e.text, fmt::format("{}.opt", name), parse_built_in);
  }
  return std::nullopt;
}

std::span<const std::shared_ptr<const Formula>> built_in_formulas() {
  static const auto all = [] {
    std::vector<std::shared_ptr<const Formula>> list;
    for (const Embedded& e : embedded_formulas()) {
      list.push_back(std::make_shared<Formula>(*parse_built_in(e.name)));
    }
    return list;
  }();
  return all;
}

}  // namespace stepfuse::formula
