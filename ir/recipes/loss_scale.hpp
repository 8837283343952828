// The loss scale and its policies, kept on the device. Knows ir only.
//
// torch.amp.GradScaler's rule: on overflow scale *= backoff_factor and the tracker restarts; else
// the tracker counts, and at growth_interval good steps scale *= growth_factor unless that is
// infinite. Products are made in f64 and rounded to f32.
#pragma once

#include "ir/recipes/gradient.hpp"

namespace stepfuse::recipes {

// The shared states that count towards the next change of the scale. What the last step added to one
// stands in the shared state change_of(it), so that it can be taken back.
inline constexpr std::string_view kTrackers[] = {"growth_tracker", "hysteresis_tracker"};
inline std::string change_of(std::string_view tracker) { return std::string(tracker) + "_change"; }

std::vector<ArgSpec> loss_scale_args(const RecipeOptions& options);

// The scale that this step's gradients were multiplied by.
Value read_scale(Context& c);

// Updates scale and trackers, or notes the flags for the step that does (ScaleRole).
void update_loss_scale(Context& c, const Verdict& verdict);

}  // namespace stepfuse::recipes
