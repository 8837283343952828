// Keeps the insides of public classes out of the shared library's symbols. Knows only the compiler.
#pragma once

// On the definition of a class that a public header declares. clang allows no other visibility than
// the declaration's; built by it, the shared library exports these symbols too.
#ifdef __clang__
#define STEPFUSE_HIDDEN
#else
#define STEPFUSE_HIDDEN [[gnu::visibility("hidden")]]
#endif
