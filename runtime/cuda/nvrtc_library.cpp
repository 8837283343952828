// Finds and opens libnvrtc. Knows the loader, the environment and the file system.
#include "runtime/cuda/nvrtc_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "runtime/caches/remembered.hpp"
#include "runtime/files/beside_program.hpp"
#include "runtime/files/trusted_file.hpp"
#include "runtime/process/shared_library.hpp"

namespace stepfuse::cuda {
namespace {
namespace fs = std::filesystem;

// The newest comes first.
const char* const kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

std::string environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value != nullptr ? value : "";
}

struct SearchFolder {
  fs::path folder;     // empty: the loader's own search
  bool found = false;  // found near the program, not named by the user: it must be trusted
};

std::vector<SearchFolder> folders_to_search() {
  std::vector<SearchFolder> places;
  if (auto named = environment("STEPFUSE_NVRTC_DIR"); !named.empty()) places.push_back({named});
  for (fs::path& folder : folders_beside_program("nvrtc")) {
    places.push_back({std::move(folder), true});
  }
  for (PipFolder& pip : folders_of_pip("lib")) {
    if (std::any_of(std::begin(kNames), std::end(kNames), [&](const char* library) {
          std::error_code error;
          return fs::exists(pip.folder / library, error);
        })) {
      places.push_back({std::move(pip.folder), pip.found});
    }
  }
  places.emplace_back();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (auto home = environment(variable); !home.empty())
      places.push_back({fs::path(home) / "lib64"});
  }
  std::vector<fs::path> toolkits;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/local", error)) {
    if (entry.path().filename().string().starts_with("cuda")) {
      toolkits.push_back(entry.path() / "lib64");
    }
  }
  std::sort(toolkits.rbegin(), toolkits.rend());
  for (fs::path& toolkit : toolkits) places.push_back({std::move(toolkit)});
  return places;
}

// Requires a trusted folder, because whoever can write it can exchange the library.
bool may_open(const SearchFolder& at, const fs::path& file) {
  return !at.found || (is_trusted(at.folder) && is_trusted(file));
}

// libnvrtc finds its builtins by name only. Unless the one from its own folder is open already, every
// compilation fails with error 7.
void open_builtins(const SearchFolder& at) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(at.folder, error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so.") && may_open(at, entry.path())) {
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
  }
}

}  // namespace

std::string describe_nvrtc_search() {
  std::string out;
  for (const SearchFolder& at : folders_to_search()) {
    if (at.folder.empty()) {
      out += describe_loader_search() + "\n";
      continue;
    }
    for (const char* name : kNames) {
      std::string file = (at.folder / name).string();
      std::string identity = may_open(at, file) ? file_identity(file) : "";
      if (!identity.empty()) out += file + " " + identity + "\n";
    }
  }
  return out;
}

NvrtcLibrary open_nvrtc(std::string* problem) {
  for (const SearchFolder& at : folders_to_search()) {
    for (const char* name : kNames) {
      fs::path file = at.folder / name;
      std::error_code error;
      if (!at.folder.empty()) {
        if (!fs::exists(file, error)) {
          *problem += file.string() + ": no such file\n";
          continue;
        }
        if (!may_open(at, file)) {
          *problem += file.string() +
                      ": not opened, since another user owns it or may write it or its folder "
                      "(chmod go-w, or name the folder in STEPFUSE_NVRTC_DIR)\n";
          continue;
        }
        open_builtins(at);
      }
      SharedLibrary opened(file.string());
      NvrtcLibrary library;
#define X(name, result, parameters) opened.find(library.name, #name);
      STEPFUSE_NVRTC_FUNCTIONS(X)
#undef X
      library.path = opened.path();
      if (opened.problem().empty()) {
        problem->clear();
        return library;
      }
      *problem += opened.problem() + "\n";
      opened.close();
    }
  }
  return {};
}

}  // namespace stepfuse::cuda
