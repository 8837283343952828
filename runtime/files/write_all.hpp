// Writes to a file without a signal where the process may not write as much. Knows POSIX files.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <sys/resource.h>
#include <unistd.h>

namespace stepfuse {

// All of it, at the file's position; or false, with what is wrong in errno. Beyond RLIMIT_FSIZE a
// write would end the process by SIGXFSZ.
inline bool write_all(int fd, const void* data, size_t bytes) {
  struct rlimit limit = {};
  off_t at = ::lseek(fd, 0, SEEK_CUR);
  if (at >= 0 && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      static_cast<uint64_t>(at) + bytes > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    ssize_t n = ::write(fd, from, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    from += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace stepfuse
