// Remembers answers of libraries in the disk cache. Knows the disk cache, the file system and the
// environment.
#include "runtime/caches/remembered.hpp"

#include <cstdlib>
#include <sys/stat.h>

#include <fmt/format.h>

#include "runtime/caches/disk_cache.hpp"

namespace stepfuse {

std::string file_identity(const std::string& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) return {};
  return fmt::format("{} {}.{} {}:{}", s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec, s.st_dev,
                     s.st_ino);
}

std::string describe_loader_search() {
  const char* folders = ::secure_getenv("LD_LIBRARY_PATH");
  return fmt::format("loader {} {}", folders != nullptr ? folders : "",
                     file_identity("/etc/ld.so.cache"));
}

// An entry's text is "<identity of the file>\n<its path>\n<answer>".
std::optional<std::string> recall_answer(const std::string& question) {
  auto stored = DiskCache::process().load(question);
  if (!stored) return std::nullopt;
  size_t first = stored->find('\n');
  if (first == std::string::npos) return std::nullopt;
  size_t second = stored->find('\n', first + 1);
  if (second == std::string::npos) return std::nullopt;
  std::string path = stored->substr(first + 1, second - first - 1);
  if (file_identity(path) != stored->substr(0, first)) return std::nullopt;
  return stored->substr(second + 1);
}

void remember_answer(const std::string& question, const std::string& file,
                     const std::string& answer) {
  std::string identity = file_identity(file);
  if (identity.empty()) return;
  DiskCache::process().store(question, fmt::format("{}\n{}\n{}", identity, file, answer));
}

void forget_answer(const std::string& question) { DiskCache::process().remove(question); }

}  // namespace stepfuse
