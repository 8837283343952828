// Whether tests go through all of what they usually draw a part of: tools/test.sh --long. Knows only std.
#pragma once

#include <cstdlib>

namespace stepfuse::testing {

inline bool is_long_run() { return std::getenv("STEPFUSE_LONG") != nullptr; }

}  // namespace stepfuse::testing
