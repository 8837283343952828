// Compiles CUDA text to PTX or a cubin by NVRTC, which is opened at run time. Needs no GPU, driver or
// toolkit. Knows std and the error type.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/cuda/resources.hpp"

namespace stepfuse::cuda {

// The library that was found, or the files that were tried.
struct NvrtcStatus {
  bool available = false;
  std::string path;  // path of the library
  int major = 0, minor = 0;
  std::vector<int> archs;  // compute capabilities that it can compile for, ascending: 75, 80, …
  std::string problem;     // if not available: every file tried and why it could not be used
};

// Searches once per process: $STEPFUSE_NVRTC_DIR; a folder `nvrtc` next to the running executable, in the
// folder above, or in the surrounding build folder; the loader's path; $CUDA_HOME; /usr/local/cuda*.
// Never throws.
const NvrtcStatus& nvrtc_status();

enum class CodeKind { ptx, cubin };

struct CompileRequest {
  std::string_view text;  // one translation unit
  std::string name = "stepfuse";
  int arch = 90;  // compute capability, major * 10 + minor
  CodeKind kind = CodeKind::cubin;
  bool line_info = false;  // adds line information of the text; the code stays the same
};

struct CompiledCode {
  CodeKind kind = CodeKind::cubin;
  int arch = 0;
  std::string code;                      // PTX text without its final zero, or the cubin's bytes
  std::string log;                       // the compiler's messages without the resource report
  std::vector<KernelResources> kernels;  // only for cubins, for which ptxas reports them
  double milliseconds = 0;
};

// Returns the options of every compilation, in this order. They are part of a variant's key.
std::vector<std::string> nvrtc_options(int arch, CodeKind kind);

// Throws Error{device} if NVRTC is not available or does not know the arch.
void require_arch(int arch);

// Thread-safe. Throws Error{device} if NVRTC is not available or does not know the arch, and
// Error{compile} with the log if the text does not compile.
CompiledCode nvrtc_compile(const CompileRequest& request);

}  // namespace stepfuse::cuda
