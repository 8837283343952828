// Calls NVRTC: options, compilation, log. Knows the library's functions and the error type.
#include "runtime/cuda/nvrtc.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <system_error>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "runtime/caches/kernel_size.hpp"
#include "runtime/cuda/nvrtc_facts.hpp"
#include "runtime/cuda/nvrtc_library.hpp"
#include "runtime/cuda/tuning.hpp"

namespace stepfuse::cuda {
namespace {

struct Front {
  NvrtcLibrary library;
  NvrtcStatus status;
};

Front open_front() {
  Front front;
  NvrtcStatus& status = front.status;
  front.library = open_nvrtc(&status.problem);
  const NvrtcLibrary& nvrtc = front.library;
  if (nvrtc.nvrtcVersion == nullptr) return front;
  status.path = nvrtc.path;
  int count = 0;
  if (nvrtc.nvrtcVersion(&status.major, &status.minor) != 0 ||
      nvrtc.nvrtcGetNumSupportedArchs(&count) != 0) {
    status.problem = nvrtc.path + ": does not say which version it is\n";
    return front;
  }
  status.archs.resize(static_cast<size_t>(count));
  nvrtc.nvrtcGetSupportedArchs(status.archs.data());
  std::sort(status.archs.begin(), status.archs.end());
  status.available = true;
  return front;
}

const Front& front() {
  static const Front instance = open_front();
  return instance;
}

// Destroys the program, however the compilation ends.
class CompilerProgram {
 public:
  CompilerProgram(const NvrtcLibrary& nvrtc, const std::string& text, const std::string& name)
      : nvrtc_(nvrtc) {
    check(nvrtc_.nvrtcCreateProgram(&program_, text.c_str(), name.c_str(), 0, nullptr, nullptr),
          "nvrtcCreateProgram");
  }
  CompilerProgram(const CompilerProgram&) = delete;
  CompilerProgram& operator=(const CompilerProgram&) = delete;
  ~CompilerProgram() { nvrtc_.nvrtcDestroyProgram(&program_); }

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> pointers;
    for (const std::string& option : options) pointers.push_back(option.c_str());
    return nvrtc_.nvrtcCompileProgram(program_, static_cast<int>(pointers.size()), pointers.data());
  }

  // Log, PTX and cubin are all fetched by two calls: first the size, then the bytes.
  std::string fetch(int (*size_of)(NvrtcProgram, size_t*), int (*get)(NvrtcProgram, char*),
                    const char* what) const {
    size_t size = 0;
    check(size_of(program_, &size), what);
    std::string bytes(size, '\0');
    if (size != 0) check(get(program_, bytes.data()), what);
    return bytes;
  }

  void check(int result, const char* what) const {
    if (result == 0) return;
    throw Error(ErrorKind::compile, fmt::format("{} failed: {} ({})", what,
                                                nvrtc_.nvrtcGetErrorString(result), result));
  }

 private:
  const NvrtcLibrary& nvrtc_;
  NvrtcProgram program_ = nullptr;
};

void drop_final_zero(std::string* text) {
  while (!text->empty() && text->back() == '\0') text->pop_back();
}

}  // namespace

const NvrtcStatus& nvrtc_status() { return front().status; }

std::vector<std::string> nvrtc_options(int arch, CodeKind kind) {
  std::vector<std::string> options = {
      fmt::format("--gpu-architecture={}_{}", kind == CodeKind::cubin ? "sm" : "compute", arch),
      "--std=c++17",
      "--fmad=false",
      "--ftz=false",
      "--prec-div=true",
      "--prec-sqrt=true",
      "--no-source-include",
      "-default-device",
  };
  if (kind == CodeKind::cubin) options.emplace_back("--ptxas-options=-v");
  // NVRTC's own cache queries the driver, and some machines have only a part of that. We have a cache of
  // our own.
  const NvrtcFacts& nvrtc = nvrtc_facts();
  if (nvrtc.major * 100 + nvrtc.minor >= 1209) {
    options.emplace_back("--no-cache");
    // Leaves out declarations of textures and of CUDA's runtime, which kernels do not use. For AdamW this saves 8 of
    // 172 ms.
    options.emplace_back("--minimal");
    // This saves a fifth of the compile time; the higher levels do not unroll.
    if (!tuning_of(arch).optimise_fully) options.emplace_back("--Ofast-compile=min");
  }
  return options;
}

void require_arch(int arch) {
  const NvrtcStatus& status = nvrtc_status();
  if (!status.available) {
    throw Error(
        ErrorKind::device,
        "NVRTC, which compiles CUDA text, was not found: `pip install nvidia-cuda-nvrtc` in the "
        "active environment, or set STEPFUSE_NVRTC_DIR to the folder of a libnvrtc.so.13 or .12. "
        "Tried:\n" +
            status.problem);
  }
  if (std::find(status.archs.begin(), status.archs.end(), arch) == status.archs.end()) {
    throw Error(
        ErrorKind::device,
        fmt::format("NVRTC {}.{} ({}) does not compile for sm_{}; it knows {}", status.major,
                    status.minor, status.path, arch, fmt::join(status.archs, ", ")));
  }
}

CompiledCode nvrtc_compile(const CompileRequest& request) {
  const Front& nvrtc = front();
  require_arch(request.arch);
  check_kernel_size(request.text, "CUDA text");
  auto start = std::chrono::steady_clock::now();
  CompilerProgram program(nvrtc.library, std::string(request.text), request.name + ".cu");
  std::vector<std::string> options = nvrtc_options(request.arch, request.kind);
  if (request.line_info) options.emplace_back("--generate-line-info");
  int result = program.compile(options);
  std::string log = program.fetch(nvrtc.library.nvrtcGetProgramLogSize,
                                  nvrtc.library.nvrtcGetProgramLog, "nvrtcGetProgramLog");
  drop_final_zero(&log);
  if (result != 0) {
    throw Error(ErrorKind::compile,
                fmt::format("NVRTC: {} ({}) for sm_{}\n{}",
                            nvrtc.library.nvrtcGetErrorString(result), result, request.arch, log));
  }
  CompiledCode out;
  out.kind = request.kind;
  out.arch = request.arch;
  if (request.kind == CodeKind::ptx) {
    out.code =
        program.fetch(nvrtc.library.nvrtcGetPTXSize, nvrtc.library.nvrtcGetPTX, "nvrtcGetPTX");
    drop_final_zero(&out.code);
  } else {
    out.code = program.fetch(nvrtc.library.nvrtcGetCUBINSize, nvrtc.library.nvrtcGetCUBIN,
                             "nvrtcGetCUBIN");
  }
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  out.milliseconds = took.count();
  ResourceLog resources = parse_resource_log(log);
  out.kernels = std::move(resources.kernels);
  out.log = std::move(resources.rest);
  return out;
}

}  // namespace stepfuse::cuda
