// A file that appears under its name whole or not at all. Knows only std.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepfuse {

// Written beside `path` under a name that nobody else has, and renamed by commit(). A file that it
// replaces gives it its mode, unless it is to be private, and `mode` is a new one's; a link, a device or a folder is not replaced.
// Every failure throws Error{device} and leaves what was there.
constexpr unsigned kPrivateFile = 0600;

class NewFile {
 public:
  explicit NewFile(std::string path, unsigned mode = 0644);
  ~NewFile();  // without commit(): nothing happened
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, size_t bytes);
  void write_at(uint64_t offset, const void* data, size_t bytes);  // over what was written
  enum class Sync : uint8_t { yes, no };
  void commit(Sync sync = Sync::yes);  // without sync, a loss of power may leave part of the file

 private:
  [[noreturn]] void fail() const;
  std::string path_;
  std::string partial_;
  int fd_ = -1;
};

void replace_file(const std::string& path, std::string_view content, unsigned mode = 0644);

}  // namespace stepfuse
