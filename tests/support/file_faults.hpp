// Faults of files on purpose: a full disk, little memory, changed bytes. Knows the file system and
// the process's limits.
#pragma once

#include <csignal>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

#include <doctest/doctest.h>

namespace stepfuse::testing {

// While it exists, no file of this process can grow beyond `bytes`: writes fail as on a full disk.
class FullDisk {
 public:
  explicit FullDisk(size_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &old_) == 0);
    rlimit now{bytes, old_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &now) == 0);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  rlimit old_{};
  void (*handler_)(int);
};

// Limits this process's address space to `bytes` more than it has. Under a sanitizer, whose shadows
// need address space, there is no limit.
class LittleMemory {
 public:
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  explicit LittleMemory(size_t /*bytes*/) { REQUIRE(::getrlimit(RLIMIT_AS, &old_) == 0); }
#else
  explicit LittleMemory(size_t bytes) {
    size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    REQUIRE(pages > 0);
    REQUIRE(::getrlimit(RLIMIT_AS, &old_) == 0);
    rlimit now{pages * static_cast<size_t>(::sysconf(_SC_PAGESIZE)) + bytes, old_.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_AS, &now) == 0);
  }
#endif
  ~LittleMemory() { ::setrlimit(RLIMIT_AS, &old_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  rlimit old_{};
};

inline std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Replaces the first `from`, which must occur, by `to`.
inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

inline size_t entries(const std::filesystem::path& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& e : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

}  // namespace stepfuse::testing
