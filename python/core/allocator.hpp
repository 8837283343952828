// An allocator in Python for a step's memory: two callables behind the C API's allocator. Knows
// Python's lock.
#pragma once

#include <stepfuse/stepfuse.h>

#include "python/core/python.hpp"

namespace stepfuse_python {

// `pair` is (allocate(bytes, stream) -> address, release(address)) and must outlive the step. Steps
// may be made and freed with or without the lock.
void set_allocator(stepfuse_step_options* options, PyObject* pair);

}  // namespace stepfuse_python
