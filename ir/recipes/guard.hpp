// Decides which steps are good, and writes reports about them. Knows ir only.
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

// Writes the averages of norms that clipping keeps.
void keep_averages(Context& c, const Verdict& verdict);
// Sets c.good from the verdict (unset if every step is good), and c.applied.
void decide(Context& c, const Verdict& verdict);
// Reads a per-tensor flag, which is true unless the layout says otherwise.
Value read_flag(Context& c, std::string_view name);
void report(Context& c, const Verdict& verdict);

}  // namespace stepfuse::recipes
