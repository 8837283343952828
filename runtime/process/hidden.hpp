// Keeps internals of public classes out of the shared library's symbols. Knows only the compiler.
#pragma once

// Put it on the definition of a class that a public header declares. clang requires the declaration's
// visibility, so a shared library built by clang exports these symbols too.
#ifdef __clang__
#define STEPFUSE_HIDDEN
#else
#define STEPFUSE_HIDDEN [[gnu::visibility("hidden")]]
#endif
