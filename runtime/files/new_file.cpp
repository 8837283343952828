// Writes a temporary file in the same folder and renames it. Knows the file system and fmt.
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

}  // namespace

void NewFile::fail() const {
  throw Error(ErrorKind::device, fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

NewFile::NewFile(std::string path, unsigned mode) : path_(std::move(path)) {
  struct stat old = {};
  bool replaces = ::lstat(path_.c_str(), &old) == 0;
  if (replaces && !S_ISREG(old.st_mode)) {
    throw Error(ErrorKind::device,
                fmt::format("cannot write {}: it is {}, which is not replaced: name a file", path_,
                            S_ISLNK(old.st_mode)   ? "a link"
                            : S_ISDIR(old.st_mode) ? "a folder"
                                                   : "a device or pipe"));
  }
  // In a folder that others can write, somebody may have made this name before us, as a link elsewhere.
  static std::atomic<uint64_t> count{0};
  constexpr int kTries = 100;
  for (int i = 0; i < kTries && fd_ < 0; ++i) {
    partial_ = fmt::format("{}.{}.{}.partial", path_, ::getpid(), count++);
    fd_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd_ < 0 && errno != EEXIST) break;
  }
  if (fd_ < 0) fail();
  constexpr mode_t kPermissions = 0777;
  if (replaces && mode != kPrivateFile && ::fchmod(fd_, old.st_mode & kPermissions) != 0) {
    int why = errno;
    ::close(fd_);
    ::unlink(partial_.c_str());
    errno = why;
    fail();
  }
}

NewFile::~NewFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(partial_.c_str());
}

void NewFile::write(const void* data, size_t bytes) {
  if (!write_all(fd_, data, bytes)) fail();
}

void NewFile::write_at(uint64_t offset, const void* data, size_t bytes) {
  if (::pwrite(fd_, data, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes)) fail();
}

void NewFile::commit(Sync sync) {
  if (sync == Sync::yes && ::fsync(fd_) != 0) fail();
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) fail();
  ::close(fd_);
  fd_ = -1;
  if (sync == Sync::no) return;
  // Sync the folder, so that the new name survives a loss of power if the file system can promise that.
  size_t slash = path_.rfind('/');
  std::string folder = slash == std::string::npos ? "." : path_.substr(0, slash + 1);
  int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
