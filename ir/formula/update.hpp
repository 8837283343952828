// The functions behind a formula's update(x), selected by options of the pipeline. Knows ir only.
#pragma once

#include <string_view>

#include "ir/formula/ast.hpp"

namespace stepfuse::formula {

// Returns clip_rms, clip_l2 or cautious. They read g and max_update.
const Statement& update_function(std::string_view name);

}  // namespace stepfuse::formula
