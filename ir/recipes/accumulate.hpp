// Gradient accumulation in f32: a step of its own that adds each micro-batch's gradients to their
// sums, and what the optimizer's step reads and clears of it. Knows ir only.
//
// Shared states of a window: micro_batches : i32 counts those added so far, and
// nonfinite_micro_batch : i32 is the index of the first with a non-finite gradient, else -1.
#pragma once

#include <stepfuse/program.hpp>

#include "ir/recipes/gradient.hpp"

namespace stepfuse::recipes {

Program make_accumulate(const RecipeOptions& options);

// What the sums of a window are divided by: arg accumulation where it is set, else (0) the number of
// its micro-batches. f64.
Value window_size(Context& c);

// In the optimizer's step (option window): a bad micro-batch makes the whole window bad, and the
// window is over.
void close_window(Context& c, Verdict& verdict);

}  // namespace stepfuse::recipes
