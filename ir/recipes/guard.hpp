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

// Sets c.good from the verdict; leaves it unset if every step is good.
void decide(Context& c, const Verdict& verdict);
void report(Context& c, const Verdict& verdict);

}  // namespace stepfuse::recipes
