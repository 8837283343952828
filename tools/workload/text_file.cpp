// Reads and writes whole files. Knows the file system.
#include "tools/workload/text_file.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

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

void write_file(const std::string& path, std::string_view bytes) {
  File file(std::fopen(path.c_str(), "wb"));
  if (!file) fail("write", path);
  bool ok = std::fwrite(bytes.data(), 1, bytes.size(), file.get()) == bytes.size();
  ok &= std::fclose(file.release()) == 0;
  if (!ok) fail("write", path);
}

}  // namespace stepfuse
