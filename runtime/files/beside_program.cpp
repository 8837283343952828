// Finds folders next to the running program. Knows the file system.
#include "runtime/files/beside_program.hpp"

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

}  // namespace stepfuse
