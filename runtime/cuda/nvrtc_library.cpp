// Finds and opens libnvrtc. Knows the loader, the environment and the file system.
#include "runtime/cuda/nvrtc_library.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <system_error>

#include "runtime/remembered.hpp"

namespace stepfuse::cuda {
namespace {
namespace fs = std::filesystem;

// Newest first.
const char* const kNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// build/bin/x finds build/nvrtc, where the set-up script puts it.
fs::path beside_executable() {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  for (fs::path folder = self.parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    if (fs::is_directory(folder / "nvrtc", error)) return folder / "nvrtc";
    if (fs::exists(folder / "CMakeCache.txt", error)) break;
  }
  return {};
}

// The empty path stands for the loader's own search.
std::vector<fs::path> search_folders() {
  std::vector<fs::path> folders;
  if (auto named = environment("STEPFUSE_NVRTC_DIR"); !named.empty()) folders.emplace_back(named);
  if (auto local = beside_executable(); !local.empty()) folders.push_back(local);
  folders.emplace_back();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (auto home = environment(variable); !home.empty())
      folders.push_back(fs::path(home) / "lib64");
  }
  std::vector<fs::path> toolkits;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/usr/local", error)) {
    if (entry.path().filename().string().starts_with("cuda")) {
      toolkits.push_back(entry.path() / "lib64");
    }
  }
  std::sort(toolkits.rbegin(), toolkits.rend());
  folders.insert(folders.end(), toolkits.begin(), toolkits.end());
  return folders;
}

// libnvrtc finds its builtins by name only: unless the one of its own folder is open already,
// every compile fails with error 7.
void open_builtins(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    std::string name = entry.path().filename().string();
    if (name.starts_with("libnvrtc-builtins.so.")) {
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_GLOBAL);
    }
  }
}

bool resolve(void* handle, NvrtcLibrary* library, std::string* missing) {
#define X(name, result, parameters)                                             \
  library->name = reinterpret_cast<result(*) parameters>(dlsym(handle, #name)); \
  if (library->name == nullptr && missing->empty()) *missing = #name;
  STEPFUSE_NVRTC_FUNCTIONS(X)
#undef X
  return missing->empty();
}

}  // namespace

std::string describe_nvrtc_search() {
  std::string out;
  for (const fs::path& folder : search_folders()) {
    if (folder.empty()) {
      out += describe_loader_search() + "\n";
      continue;
    }
    for (const char* name : kNames) {
      std::string file = (folder / name).string();
      std::string identity = file_identity(file);
      if (!identity.empty()) out += file + " " + identity + "\n";
    }
  }
  return out;
}

NvrtcLibrary open_nvrtc(std::string* problem) {
  for (const fs::path& folder : search_folders()) {
    for (const char* name : kNames) {
      fs::path file = folder.empty() ? fs::path(name) : folder / name;
      std::error_code error;
      if (!folder.empty()) {
        if (!fs::exists(file, error)) {
          *problem += file.string() + ": no such file\n";
          continue;
        }
        open_builtins(folder);
      }
      void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle == nullptr) {
        *problem += std::string(dlerror()) + "\n";
        continue;
      }
      NvrtcLibrary library;
      std::string missing;
      if (resolve(handle, &library, &missing)) {
        library.path = file.string();
        Dl_info where{};
        if (dladdr(reinterpret_cast<void*>(library.nvrtcVersion), &where) != 0) {
          library.path = where.dli_fname;
        }
        problem->clear();
        return library;
      }
      *problem += file.string() + ": has no " + missing + "\n";
      dlclose(handle);
    }
  }
  return {};
}

}  // namespace stepfuse::cuda
