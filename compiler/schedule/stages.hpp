// The unfused form: one kernel per classic stage. Knows ir.
#pragma once

#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

// Fills phases, kernels and scratch of a schedule whose program is set: a kernel begins at every
// `stage` marker and wherever a reduction's result is first used. Element values that cross kernels
// are kept in scratch arrays (re-used in place when the old value is dead) or read back from the
// buffer they were stored to; loads are repeated instead.
void add_stages(Schedule& schedule);

}  // namespace stepfuse
