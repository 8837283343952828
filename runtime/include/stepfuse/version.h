// stepfuse from C and C++: the version of these headers, and whether the library that runs goes with them. Knows
// nothing. stepfuse.h and stepfuse.hpp include it.
#pragma once

#define STEPFUSE_VERSION_MAJOR 0
#define STEPFUSE_VERSION_MINOR 1
#define STEPFUSE_VERSION_PATCH 0
#define STEPFUSE_VERSION_STRING "0.1.0"
/// A number for comparisons: #if STEPFUSE_VERSION_NUMBER >= 200 is 0.2.0 and later.
#define STEPFUSE_VERSION_NUMBER \
  (STEPFUSE_VERSION_MAJOR * 10000 + STEPFUSE_VERSION_MINOR * 100 + STEPFUSE_VERSION_PATCH)

/// Returns whether `library`, as stepfuse_version() returns it, has the MAJOR.MINOR of these headers. Before 1.0 the
/// C++ API may change with each MINOR, so a C++ program needs this. A C program also runs with each later library.
/// @thread any
static inline int stepfuse_version_matches(const char* library) {
  const char* header = STEPFUSE_VERSION_STRING;
  int dots = 0;
  for (; *library == *header; ++library, ++header) {
    if (*header == '\0' || (*header == '.' && ++dots == 2)) return 1;
  }
  return 0;
}
