// Makes text safe for terminals, because names and paths come from files. Knows only std.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepfuse {

// Replaces control characters, line ends and invalid UTF-8 by '?', and tabs by a space.
std::string printable(std::string_view text);

// Does the same, but keeps `kept`. `column` counts bytes and is moved to the character's position.
std::string printable(std::string_view line, size_t* column, char kept = '?');

}  // namespace stepfuse
