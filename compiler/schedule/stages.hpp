// Builds the unfused form: one kernel per classic stage. Knows ir.
#pragma once

#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

// Fills phases, kernels and scratch of a schedule whose program is set. A kernel begins at every `stage`
// marker, and at the first use of a reduction's result. Element values that cross kernels go into scratch
// arrays (which are reused when the old value is dead) or are read back from the buffer to which they were
// stored. Loads are repeated instead.
void add_stages(Schedule& schedule);

}  // namespace stepfuse
