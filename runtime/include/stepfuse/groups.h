// stepfuse from C: tensors that move between parameter groups.
#pragma once

#include <stepfuse/stepfuse.h>

#ifdef __cplusplus
extern "C" {
#endif

// At least so many groups, for tensors that are moved there later.
STEPFUSE_API stepfuse_status stepfuse_layout_reserve_groups(stepfuse_layout* layout, int32_t count);

// Moves a tensor to another of the layout's groups, for the runs from now on: nothing is compiled, bound
// or begun anew. Waits for the device.
STEPFUSE_API stepfuse_status stepfuse_step_set_group(stepfuse_step* step, size_t tensor,
                                                     int32_t group);

#ifdef __cplusplus
}
#endif
