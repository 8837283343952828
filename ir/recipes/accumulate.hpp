// Gradient accumulation in f32: a step that adds each micro-batch's gradients to their sums, and the
// optimizer step's part, which reads and clears the sums. Knows ir only.
//
// Shared states of a window: micro_batches : i32 counts the micro-batches added so far, and
// nonfinite_micro_batch : i32 is the index of the first one with a non-finite gradient, or -1.
#pragma once

#include <stepfuse/program.hpp>

#include "ir/recipes/gradient.hpp"

namespace stepfuse::recipes {

Program make_accumulate(const RecipeOptions& options);

// Returns the divisor of a window's sums, f64: arg accumulation, or if that is 0 the number of the window's
// micro-batches.
Value window_size(Context& c);

// Closes the window in the optimizer's step (option window). A bad micro-batch makes the whole window
// bad.
void close_window(Context& c, Verdict& verdict);

}  // namespace stepfuse::recipes
