// CUDA text to PTX or cubin through NVRTC, which is opened at run time; needs no GPU, driver or
// toolkit. Knows std and the error type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/resources.hpp"

namespace stepfuse::cuda {

// What was found, or what was tried.
struct NvrtcStatus {
  bool available = false;
  std::string path;  // of the library
  int major = 0, minor = 0;
  std::vector<int> archs;  // compute capabilities that it compiles for, rising: 75, 80, …
  std::string problem;     // if not available: every file tried and why it did not do
};

// Searches once per process: $STEPFUSE_NVRTC_DIR, a folder `nvrtc` beside the running executable, in
// the folder above or in the build folder around it, the loader's path, $CUDA_HOME, /usr/local/cuda*.
// Never throws.
const NvrtcStatus& nvrtc_status();

enum class CodeKind { ptx, cubin };

struct CompileRequest {
  std::string_view text;  // of one translation unit
  std::string name = "stepfuse";
  int arch = 90;  // compute capability, major * 10 + minor
  CodeKind kind = CodeKind::cubin;
  bool line_info = false;  // of the text, for readers of the code, which stays as it is
};

struct CompiledCode {
  CodeKind kind = CodeKind::cubin;
  int arch = 0;
  std::string code;                      // PTX text without its final zero, or the cubin's bytes
  std::string log;                       // what the compiler said, without the resource report
  std::vector<KernelResources> kernels;  // cubin only: ptxas reports them
  double milliseconds = 0;
};

// The options that every compile gets, in the order given: part of a variant's key.
std::vector<std::string> nvrtc_options(int arch, CodeKind kind);

// Throws Error{device} if NVRTC is not available or does not know the arch.
void require_arch(int arch);

// May be called from several threads. Throws Error{device} if NVRTC is not available or does not
// know the arch, Error{compile} with the log if the text does not compile.
CompiledCode nvrtc_compile(const CompileRequest& request);

}  // namespace stepfuse::cuda
