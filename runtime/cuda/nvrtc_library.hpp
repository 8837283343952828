// NVRTC's functions, resolved from a library opened at run time. Knows only std.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace stepfuse::cuda {

using NvrtcProgram = struct NvrtcProgramTag*;

// X(member, return type, parameters): the functions of nvrtc.h that are used.
#define STEPFUSE_NVRTC_FUNCTIONS(X)                                                         \
  X(nvrtcVersion, int, (int*, int*))                                                        \
  X(nvrtcGetNumSupportedArchs, int, (int*))                                                 \
  X(nvrtcGetSupportedArchs, int, (int*))                                                    \
  X(nvrtcGetErrorString, const char*, (int))                                                \
  X(nvrtcCreateProgram, int,                                                                \
    (NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(nvrtcCompileProgram, int, (NvrtcProgram, int, const char* const*))                      \
  X(nvrtcDestroyProgram, int, (NvrtcProgram*))                                              \
  X(nvrtcGetPTXSize, int, (NvrtcProgram, size_t*))                                          \
  X(nvrtcGetPTX, int, (NvrtcProgram, char*))                                                \
  X(nvrtcGetCUBINSize, int, (NvrtcProgram, size_t*))                                        \
  X(nvrtcGetCUBIN, int, (NvrtcProgram, char*))                                              \
  X(nvrtcGetProgramLogSize, int, (NvrtcProgram, size_t*))                                   \
  X(nvrtcGetProgramLog, int, (NvrtcProgram, char*))

struct NvrtcLibrary {
#define X(name, result, parameters) result(*name) parameters = nullptr;
  STEPFUSE_NVRTC_FUNCTIONS(X)
#undef X
  std::string path;
};

// Returns the first library in search order that opens and has every function. If there is none, returns
// an empty one, and `problem` has one line per file tried.
NvrtcLibrary open_nvrtc(std::string* problem);

// Describes everything that decides which library open_nvrtc() finds: the files of named folders with
// their identities, and whatever the loader's own search depends on.
std::string describe_nvrtc_search();

}  // namespace stepfuse::cuda
