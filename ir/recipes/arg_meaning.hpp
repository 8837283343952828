// Short descriptions of well-known arguments of recipes. Knows only std.
#pragma once

#include <string_view>

namespace stepfuse {

// Returns a few words; "" for arguments that are not in the table of arg_bounds.cpp.
std::string_view arg_meaning(std::string_view name);

}  // namespace stepfuse
