// Writes a file without a name in the same folder, then gives it the name. Knows the file system and fmt.
#include "runtime/files/new_file.hpp"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/words.hpp"

namespace stepfuse {
namespace {

// Writes all bytes at the file's position. Returns false with the reason in errno. Beyond RLIMIT_FSIZE a
// write would end the process by SIGXFSZ, so the limit is checked first.
bool write_all(int fd, const void* data, size_t bytes) {
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

std::string name_of_unfinished(uint64_t process, uint64_t number) {
  return fmt::format("stepfuse.{}.{}.partial", process, number);
}

// Returns the first name for which `take` succeeds, or "" with the reason in errno. In a folder that others can write,
// somebody may have made a name before us, as a link elsewhere.
template <class Take>
std::string take_name(const std::string& folder, const Take& take) {
  static std::atomic<uint64_t> count{0};
  constexpr int kTries = 100;
  for (int i = 0; i < kTries; ++i) {
    std::string name = folder + name_of_unfinished(static_cast<uint64_t>(::getpid()), count++);
    if (take(name.c_str())) return name;
    if (errno != EEXIST) break;
  }
  return "";
}

// Returns a path of the open file, under which it can be linked.
std::string path_of(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

}  // namespace

bool is_name_of_unfinished(std::string_view name) {
  std::vector<std::string_view> parts = split(name, ".");
  if (parts.size() != 4) return false;
  auto process = parse_number<uint64_t>(parts[1]), number = parse_number<uint64_t>(parts[2]);
  return process && number && name == name_of_unfinished(*process, *number);
}

NewFile::Partial::~Partial() {
  if (fd >= 0) ::close(fd);
  if (!name.empty()) ::unlink(name.c_str());
}

void NewFile::fail() const {
  throw Error(ErrorKind::device, fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

NewFile::NewFile(std::string path, unsigned mode)
    : path_(std::move(path)), folder_(path_.substr(0, path_.rfind('/') + 1)) {
  struct stat old = {};
  bool replaces = ::lstat(path_.c_str(), &old) == 0;
  if (!replaces && errno != ENOENT) fail();
  if (replaces && !S_ISREG(old.st_mode)) {
    throw Error(ErrorKind::device,
                fmt::format("cannot write {}: it is {}, which is not replaced: name a file", path_,
                            S_ISLNK(old.st_mode)   ? "a link"
                            : S_ISDIR(old.st_mode) ? "a folder"
                                                   : "a device or pipe"));
  }
  int& fd = partial_.fd;
  fd = ::open(folder_.empty() ? "." : folder_.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
  if (fd >= 0 && ::access(path_of(fd).c_str(), F_OK) != 0) {  // /proc is not mounted
    ::close(fd);
    fd = -1;
  }
  if (fd < 0) {
    partial_.name = take_name(folder_, [&](const char* name) {
      fd = ::open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
      return fd >= 0;
    });
  }
  if (fd < 0) fail();
  constexpr mode_t kPermissions = 0777;
  if (replaces && mode != kPrivateFile && ::fchmod(fd, old.st_mode & kPermissions) != 0) fail();
}

void NewFile::write(const void* data, size_t bytes) {
  if (!write_all(partial_.fd, data, bytes)) fail();
}

void NewFile::write_at(uint64_t offset, const void* data, size_t bytes) {
  if (::pwrite(partial_.fd, data, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes))
    fail();
}

void NewFile::commit(Sync sync) {
  if (sync == Sync::yes && ::fsync(partial_.fd) != 0) fail();
  if (partial_.name.empty()) {
    // A link cannot replace a file, but a rename can.
    partial_.name = take_name(folder_, [from = path_of(partial_.fd)](const char* name) {
      return ::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0;
    });
    if (partial_.name.empty()) fail();
  }
  if (std::rename(partial_.name.c_str(), path_.c_str()) != 0) fail();
  partial_.name.clear();
  if (sync == Sync::no) return;
  // Sync the folder, so that the new name survives a loss of power if the file system can promise that.
  int fd = ::open(folder_.empty() ? "." : folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

void replace_file(const std::string& path, std::string_view content, unsigned mode) {
  NewFile file(path, mode);
  file.write(content.data(), content.size());
  file.commit();
}

}  // namespace stepfuse
