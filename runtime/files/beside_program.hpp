// Finds folders next to the running program. Knows the file system.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace stepfuse {

// Returns the existing folders `name` next to the program, in the folder above it, and in the build folder
// around it (the one with CMakeCache.txt), where tools/setup.sh puts NVRTC and nvdisasm.
std::vector<std::filesystem::path> folders_beside_program(std::string_view name);

}  // namespace stepfuse
