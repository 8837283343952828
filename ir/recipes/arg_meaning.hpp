// What well-known arguments of recipes are, for people. Knows only std.
#pragma once

#include <string_view>

namespace stepfuse {

// In a few words; "" for those that are not in the table of arg_bounds.cpp.
std::string_view arg_meaning(std::string_view name);

}  // namespace stepfuse
