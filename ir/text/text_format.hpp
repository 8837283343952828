// Puts text of ours into its one form: indentation, blanks and empty lines; what is on which line, and
// the comments, stay. Knows ir only.
#pragma once

#include <string>
#include <string_view>

namespace stepfuse {

// Throw Error{parse} for a text that is no step, or no formula; its types are not looked at.
std::string format_step(std::string_view text, std::string_view file);
std::string format_formula(std::string_view text, std::string_view file);

}  // namespace stepfuse
