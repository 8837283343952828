// A file that appears under its name completely or not at all. Knows only std.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepfuse {

// The file is written in the folder of `path` and has no name until commit(), so that nothing remains of it if the
// process is killed. On file systems where every file has a name, it has one that nobody else uses. If it
// replaces a file, it takes over that file's mode unless it is to be private; otherwise it gets `mode`. A
// link, a device or a folder is not replaced. Every failure throws Error{device} and leaves the old file.
constexpr unsigned kPrivateFile = 0600;

class NewFile {
 public:
  explicit NewFile(std::string path, unsigned mode = 0644);  // without commit(), nothing changes
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, size_t bytes);
  void write_at(uint64_t offset, const void* data, size_t bytes);  // overwrites earlier bytes
  enum class Sync : uint8_t { yes, no };
  void commit(Sync sync = Sync::yes);  // without sync, a loss of power may leave part of the file

 private:
  [[noreturn]] void fail() const;
  struct Partial {
    ~Partial();  // closes the file and removes its name
    int fd = -1;
    std::string name;  // empty if the file has none
  };
  std::string path_;
  std::string folder_;  // with a slash at the end; empty for the current folder
  Partial partial_;
};

// Whether NewFile gives this name to unfinished files, as in "stepfuse.1234.0.partial".
bool is_name_of_unfinished(std::string_view name);

void replace_file(const std::string& path, std::string_view content, unsigned mode = 0644);

}  // namespace stepfuse
