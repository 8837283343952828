// Decides which files may be executed although the user has not named them (docs/security.md). Knows only
// the file system.
#pragma once

#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace stepfuse {

// The file is ours, and nobody else may write it.
inline bool is_private(const struct stat& s) {
  return s.st_uid == ::geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Only we or root can have written the file or folder, so it is as trustworthy as the program.
inline bool is_trusted(const std::string& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) return false;
  return is_private(s) || (s.st_uid == 0 && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0);
}

}  // namespace stepfuse
