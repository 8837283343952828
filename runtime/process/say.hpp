// Lines on standard error that may get lost. Knows only std.
#pragma once

#include <string>

namespace stepfuse {

// A closed or full standard error is no reason to stop a run: fmt::print would throw.
void say(const std::string& line);

}  // namespace stepfuse
