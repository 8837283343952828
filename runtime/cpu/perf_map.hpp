// Names generated code for profilers: /tmp/perf-PID.map, which perf and others read. Knows the file
// system and the environment variable STEPFUSE_PERF_MAP.
#pragma once

#include <cstddef>
#include <string_view>

namespace stepfuse {

// Does nothing unless STEPFUSE_PERF_MAP is 1. Never throws: a profile may lack names.
void name_for_profilers(const void* code, size_t bytes, std::string_view step,
                        std::string_view function) noexcept;

}  // namespace stepfuse
