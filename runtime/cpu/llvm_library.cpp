// Opens libLLVM and looks up the functions of the C API. Knows the dynamic loader and the
// environment variable STEPFUSE_LLVM_LIBRARY.
#include "runtime/cpu/llvm_library.hpp"

#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "runtime/process/shared_library.hpp"

namespace stepfuse {

#if STEPFUSE_HAVE_LLVM
namespace {

constexpr unsigned kOldestVersion = 19;

struct Loaded {
  LlvmLibrary functions;
  LlvmStatus status;
};

std::vector<std::string> candidates() {
  if (const char* named = ::secure_getenv("STEPFUSE_LLVM_LIBRARY");
      named != nullptr && *named != 0) {
    return {named};
  }
  // The names that distributions and LLVM's own packages use.
  std::vector<std::string> names;
  for (const char* version : {"19", "20", "21", "22"}) {
    names.push_back(fmt::format("libLLVM.so.{}.1", version));
    names.push_back(fmt::format("libLLVM-{}.so.1", version));
    names.push_back(fmt::format("libLLVM-{}.so", version));
  }
  return names;
}

// Returns "" if `file` can be used, or else the reason.
std::string try_open(const std::string& file, Loaded& loaded) {
  SharedLibrary library(file);
#define X(symbol) library.find(loaded.functions.symbol, #symbol);
  STEPFUSE_LLVM_FUNCTIONS(X)
  STEPFUSE_LLVM_TARGET_FUNCTIONS(X)
#undef X
  std::string problem = library.problem();
  if (problem.empty()) {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned patch = 0;
    loaded.functions.LLVMGetVersion(&major, &minor, &patch);
    loaded.status.version = fmt::format("{}.{}.{}", major, minor, patch);
    if (major < kOldestVersion) {
      problem = fmt::format("{}: is LLVM {}, but {} or later is needed", file,
                            loaded.status.version, kOldestVersion);
    }
  }
  if (!problem.empty()) {
    library.close();
    return problem;
  }
  loaded.status.library = library.path();
  loaded.status.available = true;
#define X(symbol) loaded.functions.symbol();
  STEPFUSE_LLVM_TARGET_FUNCTIONS(X)
#undef X
  return "";
}

Loaded open_library() {
  Loaded loaded;
  std::string problems;
  for (const std::string& file : candidates()) {
    std::string problem = try_open(file, loaded);
    if (problem.empty()) {
      loaded.status.problem.clear();
      return loaded;
    }
    problems += fmt::format("{}{}", problems.empty() ? "" : "; ", problem);
  }
  loaded.status.version.clear();
  loaded.status.problem = problems;
  return loaded;
}

const Loaded& loaded_library() {
  static const Loaded loaded = open_library();
  return loaded;
}

}  // namespace

const LlvmStatus& llvm_status() { return loaded_library().status; }

const LlvmLibrary& llvm_library() {
  const Loaded& loaded = loaded_library();
  if (!loaded.status.available) {
    throw Error(ErrorKind::device,
                fmt::format("the CPU backend needs libLLVM {} or later, which could not be opened "
                            "({}). Install it (Debian: libllvm19) or name the file in "
                            "STEPFUSE_LLVM_LIBRARY",
                            kOldestVersion, loaded.status.problem));
  }
  return loaded.functions;
}

#else

const LlvmStatus& llvm_status() {
  static const LlvmStatus status{
      .problem =
          "stepfuse was built without LLVM's C headers (install llvm-19-dev and build it "
          "again with STEPFUSE_LLVM=ON)"};
  return status;
}

#endif

}  // namespace stepfuse
