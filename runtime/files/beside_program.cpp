// Finds folders next to the running program, and those of pip. Knows the file system and the environment.
#include "runtime/files/beside_program.hpp"

#include <algorithm>
#include <cstdlib>
#include <system_error>

namespace stepfuse {
namespace fs = std::filesystem;

std::vector<fs::path> folders_beside_program(std::string_view name) {
  std::error_code error;
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return {};
  fs::path folder = self.parent_path();
  std::vector<fs::path> homes = {folder, folder.parent_path()};
  while (folder.has_relative_path() && !fs::exists(folder / "CMakeCache.txt", error)) {
    folder = folder.parent_path();
  }
  if (folder.has_relative_path() && folder != homes[0] && folder != homes[1]) {
    homes.push_back(folder);
  }
  std::vector<fs::path> found;
  for (const fs::path& home : homes) {
    if (fs::is_directory(home / name, error)) found.push_back(home / name);
  }
  return found;
}

std::vector<PipFolder> folders_of_pip(std::string_view name) {
  std::error_code error;
  std::vector<PipFolder> homes;
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const char* home = ::secure_getenv(variable);
    if (home != nullptr && *home != '\0') homes.push_back({home});
  }
  fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) homes.push_back({self.parent_path().parent_path(), true});
  std::vector<PipFolder> found;
  for (const PipFolder& home : homes) {
    std::vector<fs::path> here;  // the newest Python and CUDA come first
    for (const auto& python : fs::directory_iterator(home.folder / "lib", error)) {
      if (!python.path().filename().string().starts_with("python3")) continue;
      fs::path packages = python.path() / "site-packages/nvidia";
      for (const auto& package : fs::directory_iterator(packages, error)) {
        if (fs::is_directory(package.path() / name, error)) here.push_back(package.path() / name);
      }
    }
    std::sort(here.rbegin(), here.rend());
    for (fs::path& folder : here) found.push_back({std::move(folder), home.found});
  }
  return found;
}

}  // namespace stepfuse
