// An NVRTC for tests, which compiles each kernel once for all test programs: it keeps what the real NVRTC
// made of a text, under the text, the options and the compiler's file. A kernel whose text changes is
// compiled again. $STEPFUSE_KERNEL_STORE names the folder; the default lies in the build folder. Knows NVRTC's
// functions and the disk cache.
#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/caches/disk_cache.hpp"
#include "runtime/caches/remembered.hpp"
#include "runtime/cuda/nvrtc_library.hpp"

namespace {

namespace fs = std::filesystem;
using stepfuse::DiskCache;
using stepfuse::cuda::NvrtcLibrary;
using stepfuse::cuda::NvrtcProgram;

constexpr const char* kRealLibrary = STEPFUSE_REAL_NVRTC;
constexpr int kSuccess = 0;
constexpr int kInvalidProgram = 4;

// Opens the real library at its first use: a program that finds all its kernels never needs it.
const NvrtcLibrary* real() {
  static const std::optional<NvrtcLibrary> library = []() -> std::optional<NvrtcLibrary> {
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(fs::path(kRealLibrary).parent_path(), error)) {
      if (entry.path().filename().string().starts_with("libnvrtc-builtins.so.")) {
        dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
      }
    }
    void* handle = dlopen(kRealLibrary, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return std::nullopt;
    NvrtcLibrary found;
#define X(name, result, parameters)                                          \
  found.name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name)); \
  if (found.name == nullptr) return std::nullopt;
    STEPFUSE_NVRTC_FUNCTIONS(X)
#undef X
    return found;
  }();
  return library ? &*library : nullptr;
}

DiskCache& store() {
  static DiskCache folder([] {
    const char* named = std::getenv("STEPFUSE_KERNEL_STORE");
    return named != nullptr ? named : STEPFUSE_KERNEL_STORE;
  }());
  return folder;
}

// Lists of texts, as one text.
std::string pack(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += std::to_string(part.size()) + ":" + part;
  return out;
}
std::vector<std::string> unpack(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < text.size();) {
    size_t colon = text.find(':', at);
    size_t size = std::stoull(text.substr(at, colon - at));
    parts.push_back(text.substr(colon + 1, size));
    at = colon + 1 + size;
  }
  return parts;
}

std::string compiler() {
  static const std::string name =
      std::string(kRealLibrary) + " " + stepfuse::file_identity(kRealLibrary);
  return name;
}

// Version and architectures: "13 0 75 80 …".
const std::vector<int>& facts() {
  static const std::vector<int> numbers = [] {
    std::vector<int> found;
    std::string preimage = pack({"facts", compiler()});
    if (auto kept = store().load(preimage)) {
      for (const std::string& number : unpack(*kept)) found.push_back(std::stoi(number));
      return found;
    }
    if (real() == nullptr) return found;
    int major = 0, minor = 0, count = 0;
    if (real()->nvrtcVersion(&major, &minor) != kSuccess ||
        real()->nvrtcGetNumSupportedArchs(&count) != kSuccess) {
      return found;
    }
    std::vector<int> archs(static_cast<size_t>(count));
    if (real()->nvrtcGetSupportedArchs(archs.data()) != kSuccess) return found;
    found = {major, minor};
    found.insert(found.end(), archs.begin(), archs.end());
    std::vector<std::string> texts;
    for (int number : found) texts.push_back(std::to_string(number));
    store().store(preimage, pack(texts));
    return found;
  }();
  return numbers;
}

struct Compiled {
  std::string log, ptx, cubin;
};

std::string fetch(NvrtcProgram program, int (*size_of)(NvrtcProgram, size_t*),
                  int (*get)(NvrtcProgram, char*)) {
  size_t size = 0;
  if (size_of(program, &size) != kSuccess) return "";
  std::string bytes(size, '\0');
  if (size != 0 && get(program, bytes.data()) != kSuccess) return "";
  return bytes;
}

struct Source {
  std::string text, name;
  Compiled compiled;

  int compile(const std::vector<const char*>& options);
};

int Source::compile(const std::vector<const char*>& options) {
  std::vector<std::string> key = {"kernel", compiler(), name, text};
  key.insert(key.end(), options.begin(), options.end());
  std::string preimage = pack(key);
  if (auto kept = store().load(preimage)) {
    std::vector<std::string> parts = unpack(*kept);
    compiled = {parts.at(0), parts.at(1), parts.at(2)};
    return kSuccess;
  }
  if (real() == nullptr) return kInvalidProgram;
  const NvrtcLibrary& nvrtc = *real();
  NvrtcProgram program = nullptr;
  int result = nvrtc.nvrtcCreateProgram(&program, text.c_str(), name.c_str(), 0, nullptr, nullptr);
  if (result != kSuccess) return result;
  result = nvrtc.nvrtcCompileProgram(program, static_cast<int>(options.size()), options.data());
  compiled.log = fetch(program, nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog);
  if (result == kSuccess) {
    compiled.ptx = fetch(program, nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX);
    compiled.cubin = fetch(program, nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN);
    store().store(preimage, pack({compiled.log, compiled.ptx, compiled.cubin}));
  }
  nvrtc.nvrtcDestroyProgram(&program);
  return result;
}

int give_size(const std::string& bytes, size_t* size) {
  *size = bytes.size();
  return kSuccess;
}
int give(const std::string& bytes, char* out) {
  bytes.copy(out, bytes.size());
  return kSuccess;
}

}  // namespace

extern "C" {

#define STEPFUSE_EXPORT __attribute__((visibility("default")))

STEPFUSE_EXPORT int nvrtcVersion(int* major, int* minor) {
  if (facts().empty()) return kInvalidProgram;
  *major = facts()[0];
  *minor = facts()[1];
  return kSuccess;
}

STEPFUSE_EXPORT int nvrtcGetNumSupportedArchs(int* count) {
  if (facts().empty()) return kInvalidProgram;
  *count = static_cast<int>(facts().size()) - 2;
  return kSuccess;
}

STEPFUSE_EXPORT int nvrtcGetSupportedArchs(int* archs) {
  std::copy(facts().begin() + 2, facts().end(), archs);
  return kSuccess;
}

STEPFUSE_EXPORT const char* nvrtcGetErrorString(int result) {
  return real() != nullptr ? real()->nvrtcGetErrorString(result) : kRealLibrary;
}

STEPFUSE_EXPORT int nvrtcCreateProgram(Source** program, const char* text, const char* name, int,
                                       const char* const*, const char* const*) {
  *program = new Source{text, name, {}};
  return kSuccess;
}

STEPFUSE_EXPORT int nvrtcCompileProgram(Source* program, int count, const char* const* options) {
  return program->compile({options, options + count});
}

STEPFUSE_EXPORT int nvrtcDestroyProgram(Source** program) {
  delete *program;
  *program = nullptr;
  return kSuccess;
}

STEPFUSE_EXPORT int nvrtcGetPTXSize(Source* program, size_t* size) {
  return give_size(program->compiled.ptx, size);
}
STEPFUSE_EXPORT int nvrtcGetPTX(Source* program, char* out) {
  return give(program->compiled.ptx, out);
}
STEPFUSE_EXPORT int nvrtcGetCUBINSize(Source* program, size_t* size) {
  return give_size(program->compiled.cubin, size);
}
STEPFUSE_EXPORT int nvrtcGetCUBIN(Source* program, char* out) {
  return give(program->compiled.cubin, out);
}
STEPFUSE_EXPORT int nvrtcGetProgramLogSize(Source* program, size_t* size) {
  return give_size(program->compiled.log, size);
}
STEPFUSE_EXPORT int nvrtcGetProgramLog(Source* program, char* out) {
  return give(program->compiled.log, out);
}

}  // extern "C"
