// Writes /tmp/perf-PID.map, to which all code generators of a process append. Knows the file system and
// the environment variable STEPFUSE_PERF_MAP.
#include "runtime/cpu/perf_map.hpp"

#include <cstdint>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

namespace stepfuse {
namespace {

bool is_wanted() {
  const char* set = std::getenv("STEPFUSE_PERF_MAP");
  return set != nullptr && std::string_view(set) == "1";
}

}  // namespace

void name_for_profilers(const void* code, size_t bytes, std::string_view step,
                        std::string_view function) noexcept try {
  if (!is_wanted()) return;
  std::string name = fmt::format("stepfuse:{}:{}", step, function);
  for (char& c : name) {
    if (static_cast<unsigned char>(c) <= ' ') c = '_';  // an entry is one line
  }
  std::string line = fmt::format("{:x} {:x} {}\n", reinterpret_cast<uintptr_t>(code), bytes, name);
  // Anybody may have made a file, pipe or link with that name. Write only to a regular file of our own.
  std::string path = fmt::format("/tmp/perf-{}.map", ::getpid());
  int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                  0600);
  if (fd < 0) return;
  struct stat s{};
  if (::fstat(fd, &s) == 0 && S_ISREG(s.st_mode) && s.st_uid == ::geteuid() && s.st_nlink == 1) {
    // A single write keeps entries of several threads intact.
    static_cast<void>(::write(fd, line.data(), line.size()) == 0);
  }
  ::close(fd);
} catch (...) {
}

}  // namespace stepfuse
