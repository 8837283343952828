// Lowers a Schedule to the KernelPlan that emitters and runtime read. Knows the schedule.
#pragma once

#include "compiler/plan/plan.hpp"
#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

KernelPlan lower(const Schedule& schedule);

}  // namespace stepfuse
