// A file that appears under its name completely or not at all. Knows only std.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepfuse {

// The file is written next to `path` under a name that nobody else uses, and commit() renames it. If it
// replaces a file, it takes over that file's mode unless it is to be private; otherwise it gets `mode`. A
// link, a device or a folder is not replaced. Every failure throws Error{device} and leaves the old file.
constexpr unsigned kPrivateFile = 0600;

class NewFile {
 public:
  explicit NewFile(std::string path, unsigned mode = 0644);
  ~NewFile();  // without commit(), nothing has changed
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, size_t bytes);
  void write_at(uint64_t offset, const void* data, size_t bytes);  // overwrites earlier bytes
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
