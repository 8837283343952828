// Compiled variants, and what is known of their compilers, beyond the end of the process: one
// checksummed file per key. Knows std and the file system.
//
//   folder  := $STEPFUSE_CACHE_DIR, else $XDG_CACHE_HOME/stepfuse, else ~/.cache/stepfuse; none where
//              the process has other rights than its caller
//   file    := <32 hex digits of the preimage's hash> ".variant"
//   content := magic (16 bytes), preimage size, payload size (8 bytes each, little-endian),
//              XXH3-128 of all that follows and of the sizes (16 bytes), preimage, payload
//
// It holds machine code: the folder must belong to the user and be writable by nobody else, and so
// must every file. A file is written under another name and renamed, so that readers see all of it
// or nothing; there are no locks. A damaged entry is deleted and compiled again; a read that fails
// is a miss. STEPFUSE_CACHE=off (or 0) turns the cache off.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace stepfuse {

class DiskCache {
 public:
  static constexpr uint64_t kDefaultCapacity = uint64_t{1} << 30;

  // A disabled cache (`problem` says why) misses always and stores nothing.
  explicit DiskCache(std::filesystem::path folder, uint64_t capacity_bytes = kDefaultCapacity);
  // The process's cache, from the environment as it was at the first call.
  static DiskCache& process();

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& problem() const { return problem_; }  // empty if the cache works
  std::filesystem::path path_of(const std::string& preimage) const;

  std::optional<std::string> load(const std::string& preimage);
  // Never throws: a cache that cannot be written is only slow.
  void store(const std::string& preimage, const std::string& payload) noexcept;
  // For a payload that the loader refused.
  void remove(const std::string& preimage) noexcept;

  // An entry of a folder that was shipped rather than filled by this user: it may be root's, too, and
  // nothing in it is changed.
  static std::optional<std::string> load_shipped(const std::filesystem::path& folder,
                                                 const std::string& preimage);

  struct Entry {
    std::string name;
    uint64_t bytes = 0;
    std::filesystem::file_time_type used;
  };
  std::vector<Entry> list() const;  // newest first
  // Preimage of an entry by the beginning of its name; nothing if there is no one such entry.
  std::optional<std::string> show(const std::string& name_prefix) const;
  size_t clear();  // entries removed

 private:
  void evict() noexcept;
  std::filesystem::path folder_;
  uint64_t capacity_;
  std::string problem_;
};

}  // namespace stepfuse
