// stepfuse from C: steps of an optimizer's formula (docs/your_optimizer.md) with the pipeline around it.
//
//   const char* options[] = {"grad=bf16", "master", "clip"};
//   if (stepfuse_formula(text, "mine.opt", options, 3, &program)) die(stepfuse_error_message());
#pragma once

#include <stepfuse/stepfuse.h>

#ifdef __cplusplus
extern "C" {
#endif

// Options are those of stepfuse_recipe. Errors show the place in the text, whose file name is
// `file` (may be NULL).
STEPFUSE_API stepfuse_status stepfuse_formula(const char* text, const char* file,
                                              const char* const* options, size_t option_count,
                                              stepfuse_program** program);

// The options that a formula declares, one per line; free them with stepfuse_free. To see what an option adds,
// create the program with "with=NAME" and query it.
STEPFUSE_API stepfuse_status stepfuse_formula_options(const char* text, const char* file,
                                                      char** names);

// The formula of a built-in optimizer, to be freed with stepfuse_free.
STEPFUSE_API stepfuse_status stepfuse_formula_text(const char* recipe, char** text);

#ifdef __cplusplus
}
#endif
