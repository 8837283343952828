// Which files may be run as code without anybody's having named them (docs/security.md). Knows only
// the file system.
#pragma once

#include <string>
#include <sys/stat.h>
#include <unistd.h>

namespace stepfuse {

// Ours, and writable by nobody else.
inline bool is_private(const struct stat& s) {
  return s.st_uid == ::geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// A file or folder that only we or the system's owner can have written: as good as the program.
inline bool is_trusted(const std::string& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) return false;
  return is_private(s) || (s.st_uid == 0 && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0);
}

}  // namespace stepfuse
