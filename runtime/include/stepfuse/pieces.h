// stepfuse from C: one device's bits on many devices that have shards of the tensors.
//
// A device calls observe for all its tensors, and takes the pieces that stepfuse_step_partial then names. It calls
// reduce, gets the pieces of all devices in the order of the full tensors, and folds them before the run.
#pragma once

#include <stepfuse/stepfuse.h>

#ifdef __cplusplus
extern "C" {
#endif

// Folds `count` pieces, in host memory, in one device's order, and makes the result what a run of the step finds
// as the reduction with that index. The step's memory must be the host's.
STEPFUSE_API stepfuse_status stepfuse_step_fold_pieces(stepfuse_step* step, size_t index,
                                                       const void* pieces, size_t count);

#ifdef __cplusplus
}
#endif
