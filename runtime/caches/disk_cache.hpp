// Keeps compiled variants, and facts about their compilers, between processes: one checksummed file per
// key. Knows std and the file system.
//
//   folder  := $STEPFUSE_CACHE_DIR, else $XDG_CACHE_HOME/stepfuse, else ~/.cache/stepfuse; no folder if
//              the process runs with other rights than its caller's (setuid)
//   file    := <32 hex digits of the preimage's hash> ".variant"
//   content := magic (16 bytes), preimage size, payload size (8 bytes each, little-endian),
//              XXH3-128 of the sizes and everything behind this field (16 bytes), preimage, payload
//
// The files hold machine code. Therefore the folder and every file must belong to the user and be
// writable by nobody else. A file is written under a temporary name and renamed, so that readers see all
// of it or nothing; there are no locks. A damaged entry is deleted and compiled again, and a failed read
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

  // A disabled cache (`problem` says why) always misses and stores nothing.
  explicit DiskCache(std::filesystem::path folder, uint64_t capacity_bytes = kDefaultCapacity);
  // Returns the process's cache. It reads the environment once, at the first call.
  static DiskCache& process();

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& problem() const { return problem_; }  // empty if the cache works
  std::filesystem::path path_of(const std::string& preimage) const;

  std::optional<std::string> load(const std::string& preimage);
  // Never throws: without the cache, later processes compile again.
  void store(const std::string& preimage, const std::string& payload) noexcept;
  // Removes an entry whose payload the loader refused.
  void remove(const std::string& preimage) noexcept;

  // Loads an entry from a folder that was shipped rather than filled by this user. Its files may belong
  // to root, and nothing in the folder is changed.
  static std::optional<std::string> load_shipped(const std::filesystem::path& folder,
                                                 const std::string& preimage);

  struct Entry {
    std::string name;
    uint64_t bytes = 0;
    std::filesystem::file_time_type used;
  };
  std::vector<Entry> list() const;  // newest first
  // Returns the preimage of the entry whose name starts with this prefix, if there is exactly one.
  std::optional<std::string> show(const std::string& name_prefix) const;
  size_t clear();  // returns the number of entries removed

 private:
  void evict() noexcept;
  std::filesystem::path folder_;
  uint64_t capacity_;
  std::string problem_;
};

}  // namespace stepfuse
