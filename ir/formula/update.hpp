// The functions that a formula's update(x) goes through, by the options of the pipeline. Knows ir only.
#pragma once

#include <string_view>

#include "ir/formula/ast.hpp"

namespace stepfuse::formula {

// One of clip_rms, clip_l2 and cautious. They read g and max_update.
const Statement& update_function(std::string_view name);

}  // namespace stepfuse::formula
