// Formats steps and formulas: indentation, blanks and empty lines. It keeps the division into lines and the
// comments. Knows ir only.
#pragma once

#include <string>
#include <string_view>

namespace stepfuse {

// Both throw Error{parse} if the text is not a step, or not a formula. They do not check types.
std::string format_step(std::string_view text, std::string_view file);
std::string format_formula(std::string_view text, std::string_view file);

}  // namespace stepfuse
