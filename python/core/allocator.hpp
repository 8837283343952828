// Memory of a step from Python: two callables behind the C API's allocator. Knows Python's lock.
#pragma once

#include <stepfuse/stepfuse.h>

#include "python/core/python.hpp"

namespace stepfuse_python {

// `pair` is (allocate(bytes, stream) -> address, release(address)); it must outlive the step. A step that
// is made or freed may hold the lock or not.
void set_allocator(stepfuse_step_options* options, PyObject* pair);

}  // namespace stepfuse_python
