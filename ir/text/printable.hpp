// Text as a terminal may see it: names and paths come from files. Knows only std.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace stepfuse {

// Control characters, line ends too, and what is no UTF-8 become '?', tabs a space.
std::string printable(std::string_view text);

// The same, except that `kept` stays. `column` counts bytes and is moved to the character's place.
std::string printable(std::string_view line, size_t* column, char kept = '?');

}  // namespace stepfuse
