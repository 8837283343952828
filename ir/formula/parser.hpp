// Parses formula text. Knows ir only.
#pragma once

#include <optional>
#include <string_view>

#include "ir/formula/ast.hpp"

namespace stepfuse::formula {

// Returns the base formula of `optimizer NAME = BASE`, or nothing if there is no such formula.
using FindBase = std::optional<Formula> (*)(std::string_view name);

// Throws Error{parse} at the first mistake. Types are checked when a step is made from the formula.
Formula parse_formula(std::string_view text, std::string_view file, FindBase find_base);

}  // namespace stepfuse::formula
