// Reports with a value per tensor: norms, and updates that rounding made vanish. Knows ir only.
#pragma once

#include "ir/recipes/parameter.hpp"

namespace stepfuse::recipes {

// Adds the reports of --layer-norms and --check-updates. `gradient` is unscaled and not clipped. A
// step that leaves the weight to another one reports only the gradient's norm.
void report_layers(Context& c, Value gradient, const Parameter& p);

}  // namespace stepfuse::recipes
