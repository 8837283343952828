// Formula text to its tree. Knows ir only.
#pragma once

#include <optional>
#include <string_view>

#include "ir/formula/ast.hpp"

namespace stepfuse::formula {

// The formula that `optimizer NAME = BASE` begins from; nothing where there is none.
using FindBase = std::optional<Formula> (*)(std::string_view name);

// Throws Error{parse} at the first fault. Types are checked where a step is made of it.
Formula parse_formula(std::string_view text, std::string_view file, FindBase find_base);

}  // namespace stepfuse::formula
