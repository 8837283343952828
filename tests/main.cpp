// The doctest runner of every test executable.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#if defined(__SANITIZE_THREAD__)
// LLVM is not instrumented, so ThreadSanitizer does not see how threads that compile share its global tables.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:libLLVM\n"; }
#endif
