// The loss scale and its policies, kept on the device. Knows ir only.
//
// torch.amp.GradScaler's rule: an overflow multiplies the scale by backoff_factor and restarts the tracker.
// Otherwise the tracker counts, and at growth_interval good steps the scale is multiplied by growth_factor,
// unless that is infinite. Products are computed in f64 and rounded to f32.
#pragma once

#include "ir/recipes/gradient.hpp"

namespace stepfuse::recipes {

// The shared states that count towards the next change of the scale. The last step's change of each is in
// the shared state change_of(it), so that it can be undone.
inline constexpr std::string_view kTrackers[] = {"growth_tracker", "hysteresis_tracker"};
inline std::string change_of(std::string_view tracker) { return std::string(tracker) + "_change"; }

std::vector<ArgSpec> loss_scale_args(const RecipeOptions& options);

// Returns the scale that multiplied this step's gradients.
Value read_scale(Context& c);

// Updates scale and trackers, or records the flags for the step that does (ScaleRole).
void update_loss_scale(Context& c, const Verdict& verdict);

}  // namespace stepfuse::recipes
