// Reads and writes whole files. Knows the file system and new_file.hpp.
#include "tools/workload/text_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "runtime/files/new_file.hpp"

namespace stepfuse {
namespace {

struct Close {
  void operator()(std::FILE* file) const {
    if (file != stdin) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, Close>;

[[noreturn]] void fail(std::string_view what, const std::string& path) {
  throw Error(ErrorKind::usage, fmt::format("cannot {} {}: {}", what, path, std::strerror(errno)));
}

}  // namespace

std::string read_text_file(const std::string& path) {
  File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (!file) fail("read", path);
  std::string text;
  std::array<char, 65536> block;
  while (size_t n = std::fread(block.data(), 1, block.size(), file.get())) {
    text.append(block.data(), n);
  }
  if (std::ferror(file.get()) != 0) fail("read", path);
  return text;
}

namespace {

void write_stream(const std::string& path, std::string_view bytes) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) fail("write", path);
  bool ok = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  ok &= std::fclose(file.release()) == 0;
  if (!ok) fail("write", path);
}

// The file that a write to `path` replaces, or nothing if the bytes go into an open stream: /dev/stdout is whatever the
// caller has open, perhaps a file that others write to as well. Links are followed.
std::optional<std::string> replaced_by(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  fs::file_status there = fs::status(path, none);
  bool replaced = !fs::exists(there) || fs::is_regular_file(there) || fs::is_directory(there);
  if (!replaced || path.starts_with("/dev/")) return std::nullopt;
  bool link = fs::is_symlink(fs::symlink_status(path, none)) && fs::exists(there);
  return link ? fs::canonical(path).string() : path;
}

constexpr unsigned kNewMode = 0666;  // before the caller's umask

}  // namespace

void write_file(const std::string& path, std::string_view bytes) {
  std::optional<std::string> file = replaced_by(path);
  if (!file) return write_stream(path, bytes);
  write_named([&] { replace_file(*file, bytes, kNewMode); });
}

void check_writable(const std::string& path) {
  std::optional<std::string> file = replaced_by(path);
  if (file) write_named([&] { NewFile unused(*file, kNewMode); });
}

}  // namespace stepfuse
