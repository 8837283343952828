// stepfuse from C: where kernels come from, and how many this process has made (docs/embedding.md).
// A part of stepfuse.h.
#pragma once

#include <stepfuse/stepfuse.h>

#ifdef __cplusplus
extern "C" {
#endif

// From now on this process looks for kernels in this folder, which `stepfuse aot` made, before it
// compiles any; also $STEPFUSE_KERNELS.
STEPFUSE_API stepfuse_status stepfuse_use_kernels(const char* folder);

// Variants of this process so far.
typedef struct stepfuse_cache {
  size_t size;
  uint64_t compiled;
  uint64_t hits;
} stepfuse_cache;
#define STEPFUSE_CACHE {sizeof(stepfuse_cache), 0, 0}
STEPFUSE_API stepfuse_status stepfuse_cache_stats(stepfuse_cache* stats);

#ifdef __cplusplus
}
#endif

#include <stepfuse/version.h>
