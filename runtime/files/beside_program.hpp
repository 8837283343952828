// Finds folders next to the running program, and those of pip. Knows the file system and the environment.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace stepfuse {

// Returns the existing folders `name` next to the program, in the folder above it, and in the build folder
// around it (the one with CMakeCache.txt), where tools/setup.sh puts NVRTC and nvdisasm.
std::vector<std::filesystem::path> folders_beside_program(std::string_view name);

struct PipFolder {
  std::filesystem::path folder;
  bool found =
      false;  // in the program's own prefix, not named by the environment: it must be trusted
};

// Returns the existing folders `name`, such as "lib", of NVIDIA's packages that pip installed: those of the active
// environment ($VIRTUAL_ENV, $CONDA_PREFIX), then those of the prefix that the program is installed in.
std::vector<PipFolder> folders_of_pip(std::string_view name);

}  // namespace stepfuse
