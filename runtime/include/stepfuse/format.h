// stepfuse from C: the forms that moments are kept in (docs/formats.md), one into another.
#pragma once

#include <stepfuse/stepfuse.h>

#ifdef __cplusplus
extern "C" {
#endif

// The step that has @from, kept in one form, and makes @to, the same values in another. A form is "f32",
// another type of floats, or a format of option "moments", whose parts are buffers such as @from.fp8.code.
STEPFUSE_API stepfuse_status stepfuse_conversion(const char* from, const char* to,
                                                 stepfuse_program** program);

#ifdef __cplusplus
}
#endif
