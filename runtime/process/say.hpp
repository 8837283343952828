// Writes lines to standard error and ignores failures. Knows only std.
#pragma once

#include <string>

namespace stepfuse {

// A closed or full standard error must not stop a run. fmt::print would throw.
void say(const std::string& line);

}  // namespace stepfuse
