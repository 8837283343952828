// Which steps are good, and what is reported about them. Knows ir only.
//
//                          weights, moments, copy,   scale and        zeroed
//                          EMA, step counts          tracker          gradients
//   good                   updated, +1               good-step rule   yes
//   a non-finite gradient  untouched                 overflow rule    yes
//   norm overflows         untouched                 unchanged        yes
//   norm over threshold    untouched                 good-step rule   yes
#pragma once

#include "ir/recipes/gradient.hpp"

namespace stepfuse::recipes {

// Writes what clipping keeps of the norms.
void keep_averages(Context& c, const Verdict& verdict);
// Sets c.good from the verdict, unset if every step is good, and c.applied.
void decide(Context& c, const Verdict& verdict);
// A state that says yes or no of each tensor, yes unless it is told otherwise.
Value read_flag(Context& c, std::string_view name);
void report(Context& c, const Verdict& verdict);

}  // namespace stepfuse::recipes
