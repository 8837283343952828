// Compiled variants on disk. Knows std, POSIX files and xxHash.
#include "runtime/caches/disk_cache.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/files/new_file.hpp"
#include "runtime/files/trusted_file.hpp"

namespace stepfuse {
namespace fs = std::filesystem;
namespace {

constexpr char kMagic[16] = {'s', 't', 'e', 'p', 'f', 'u', 's', 'e',
                             '-', 'v', 'a', 'r', ' ', '1', '\n'};
constexpr std::string_view kSuffix = ".variant";
constexpr size_t kDigits = 32;
constexpr uint64_t kLargestBody = uint64_t{1} << 28;  // hundreds of times the largest kernel

struct Header {
  char magic[16];
  uint64_t preimage_size;
  uint64_t payload_size;
  XXH128_canonical_t checksum;
};
static_assert(sizeof(Header) == 48);

XXH128_canonical_t checksum(uint64_t preimage_size, uint64_t payload_size, std::string_view body) {
  uint64_t seed = preimage_size * 0x9E3779B97F4A7C15ULL ^ payload_size;
  XXH128_canonical_t out;
  XXH128_canonicalFromHash(&out, XXH3_128bits_withSeed(body.data(), body.size(), seed));
  return out;
}

class File {
 public:
  File(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

bool read_all(int fd, char* to, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = ::read(fd, to, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    to += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

enum class Verdict : uint8_t { good, damaged, unreadable };

struct Content {
  Verdict verdict = Verdict::unreadable;
  std::string preimage;
  std::string payload;
};

Content read_entry(const fs::path& path, bool may_be_roots = false) {
  // A pipe with that name would block open() forever.
  File file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  struct stat s{};
  if (!file || ::fstat(file.get(), &s) != 0) return {};
  if (may_be_roots && s.st_uid == 0) s.st_uid = ::geteuid();
  if (!S_ISREG(s.st_mode) || !is_private(s)) return {};
  Content content;
  content.verdict = Verdict::damaged;
  Header h{};
  auto size = static_cast<uint64_t>(s.st_size);
  if (size < sizeof h) return content;
  if (!read_all(file.get(), reinterpret_cast<char*>(&h), sizeof h)) return {};
  uint64_t body_size = size - sizeof h;
  // Check the size before allocating it: a sparse file may claim a terabyte.
  bool sane = std::memcmp(h.magic, kMagic, sizeof kMagic) == 0 && body_size <= kLargestBody &&
              h.preimage_size <= body_size && h.payload_size == body_size - h.preimage_size;
  if (!sane) return content;
  std::string body(body_size, '\0');
  if (!read_all(file.get(), body.data(), body.size())) return {};
  XXH128_canonical_t sum = checksum(h.preimage_size, h.payload_size, body);
  if (std::memcmp(&sum, &h.checksum, sizeof sum) != 0) return content;
  content.verdict = Verdict::good;
  content.preimage = body.substr(0, h.preimage_size);
  content.payload = body.substr(h.preimage_size);
  return content;
}

std::string file_name(const std::string& preimage) {
  XXH128_hash_t h = XXH3_128bits(preimage.data(), preimage.size());
  return fmt::format("{:016x}{:016x}{}", h.high64, h.low64, kSuffix);
}

// Creates the folder if necessary. Returns what is wrong with it, or "".
std::string check_folder(const fs::path& folder) {
  if (folder.empty())
    return "no cache folder: neither STEPFUSE_CACHE_DIR, XDG_CACHE_HOME nor HOME is set, or the "
           "program has other rights than its caller";
  std::error_code ec;
  fs::create_directories(folder.parent_path(), ec);
  ::mkdir(folder.c_str(), 0700);
  struct stat s{};
  if (::stat(folder.c_str(), &s) != 0) {
    return fmt::format("{}: {}", folder.string(), std::strerror(errno));
  }
  if (!S_ISDIR(s.st_mode)) return folder.string() + " is not a folder";
  if (!is_private(s)) {
    return folder.string() +
           " belongs to another user or is writable by others; it would hold code: "
           "chmod 700 it, or set STEPFUSE_CACHE_DIR";
  }
  return "";
}

fs::path folder_from_environment() {
  auto get = [](const char* name) -> fs::path {
    const char* v = ::secure_getenv(name);
    return v != nullptr ? fs::path(v) : fs::path();
  };
  if (fs::path dir = get("STEPFUSE_CACHE_DIR"); !dir.empty()) return dir;
  if (fs::path xdg = get("XDG_CACHE_HOME"); !xdg.empty()) return xdg / "stepfuse";
  if (fs::path home = get("HOME"); !home.empty()) return home / ".cache" / "stepfuse";
  return {};
}

// Accepts only names that this cache makes: the folder may hold other files as well.
bool is_entry(const fs::path& p) {
  std::string name = p.filename().string();
  return name.size() == kDigits + kSuffix.size() && name.ends_with(kSuffix) &&
         name.find_first_not_of("0123456789abcdef") == kDigits;
}
bool is_temporary(const fs::path& p) { return is_name_of_unfinished(p.filename().string()); }
bool is_file(const fs::directory_entry& e) {
  std::error_code ec;
  return fs::is_regular_file(e.symlink_status(ec));
}

// Returns why the environment turns the cache off, or "" if it does not.
std::string refusal_from_environment() {
  const char* set = std::getenv("STEPFUSE_CACHE");
  std::string_view mode = set != nullptr ? set : "";
  for (std::string_view on : {"", "on", "1", "yes", "true"}) {
    if (mode == on) return "";
  }
  for (std::string_view off : {"off", "0", "no", "false"}) {
    if (mode == off) return fmt::format("STEPFUSE_CACHE={}", mode);
  }
  return fmt::format("STEPFUSE_CACHE={} is neither on nor off; STEPFUSE_CACHE_DIR names a folder",
                     mode);
}

}  // namespace

DiskCache::DiskCache(fs::path folder, uint64_t capacity_bytes)
    : folder_(std::move(folder)), capacity_(capacity_bytes), problem_(check_folder(folder_)) {}

DiskCache& DiskCache::process() {
  // Leaked on purpose: steps may still compile while the process ends.
  static DiskCache* cache = [] {
    auto* c = new DiskCache(folder_from_environment());
    if (std::string off = refusal_from_environment(); !off.empty()) c->problem_ = off;
    return c;
  }();
  return *cache;
}

fs::path DiskCache::path_of(const std::string& preimage) const {
  return folder_ / file_name(preimage);
}

std::optional<std::string> DiskCache::load_shipped(const fs::path& folder,
                                                   const std::string& preimage) {
  Content content = read_entry(folder / file_name(preimage), true);
  if (content.verdict != Verdict::good || content.preimage != preimage) return std::nullopt;
  return std::move(content.payload);
}

std::optional<std::string> DiskCache::load(const std::string& preimage) try {
  if (!problem_.empty()) return std::nullopt;
  fs::path path = path_of(preimage);
  Content content = read_entry(path);
  if (content.verdict == Verdict::unreadable) return std::nullopt;
  std::error_code ec;
  if (content.verdict == Verdict::damaged) {
    fs::remove(path, ec);
    return std::nullopt;
  }
  // Two preimages with one hash share a file name, and the newer entry has replaced the older one.
  if (content.preimage != preimage) return std::nullopt;
  // The time of last use orders eviction. Updating it once a day is precise enough.
  auto now = fs::file_time_type::clock::now();
  auto used = fs::last_write_time(path, ec);
  if (!ec && now - used > std::chrono::hours(24)) fs::last_write_time(path, now, ec);
  return std::move(content.payload);
} catch (const std::bad_alloc&) {
  return std::nullopt;
}

void DiskCache::store(const std::string& preimage, const std::string& payload) noexcept try {
  if (!problem_.empty() || preimage.size() + payload.size() > kLargestBody) return;
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.preimage_size = preimage.size();
  h.payload_size = payload.size();
  h.checksum = checksum(h.preimage_size, h.payload_size, preimage + payload);
  NewFile file(path_of(preimage).string(), kPrivateFile);
  file.write(&h, sizeof h);
  file.write(preimage.data(), preimage.size());
  file.write(payload.data(), payload.size());
  // The checksum detects an entry that a loss of power has cut short.
  file.commit(NewFile::Sync::no);
  evict();
} catch (...) {
  // There is no memory, the disk is full, or the path is unusable: the variant stays uncached.
}

void DiskCache::remove(const std::string& preimage) noexcept try {
  std::error_code ec;
  if (problem_.empty()) fs::remove(path_of(preimage), ec);
} catch (...) {
}

std::vector<DiskCache::Entry> DiskCache::list() const {
  std::vector<Entry> entries;
  std::error_code ec;
  for (fs::directory_iterator it(folder_, ec), end; !ec && it != end; it.increment(ec)) {
    if (!is_entry(it->path()) || !is_file(*it)) continue;
    std::error_code gone;  // another process may remove the file in the meantime
    Entry e{it->path().stem().string(), it->file_size(gone), it->last_write_time(gone)};
    if (!gone) entries.push_back(std::move(e));
  }
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.used > b.used; });
  return entries;
}

std::optional<std::string> DiskCache::show(const std::string& name_prefix) const {
  std::optional<std::string> found;
  for (const Entry& e : list()) {
    if (!e.name.starts_with(name_prefix)) continue;
    if (found) return std::nullopt;
    Content content = read_entry(folder_ / (e.name + std::string(kSuffix)));
    if (content.verdict == Verdict::good) found = std::move(content.preimage);
  }
  return found;
}

size_t DiskCache::clear() {
  size_t removed = 0;
  std::error_code ec;
  for (fs::directory_iterator it(folder_, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code gone;
    bool ours = (is_entry(it->path()) || is_temporary(it->path())) && is_file(*it);
    if (ours && fs::remove(it->path(), gone) && is_entry(it->path())) ++removed;
  }
  return removed;
}

// Removes the oldest entries until nine tenths of the capacity are left, and temporary files of processes
// that were killed while writing.
void DiskCache::evict() noexcept try {
  std::vector<Entry> entries = list();
  uint64_t total = 0;
  for (const Entry& e : entries) total += e.bytes;
  std::error_code ec;
  uint64_t target = total > capacity_ ? capacity_ * 9 / 10 : total;
  while (total > target && entries.size() > 1) {
    fs::remove(folder_ / (entries.back().name + std::string(kSuffix)), ec);
    total -= entries.back().bytes;
    entries.pop_back();
  }
  auto stale = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (fs::directory_iterator it(folder_, ec), end; !ec && it != end; it.increment(ec)) {
    std::error_code gone;
    if (is_temporary(it->path()) && is_file(*it) && it->last_write_time(gone) < stale && !gone) {
      fs::remove(it->path(), gone);
    }
  }
} catch (...) {
}

}  // namespace stepfuse
