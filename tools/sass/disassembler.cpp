// Runs nvdisasm on a temporary file, without a shell.
#include "tools/sass/disassembler.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/words.hpp"
#include "runtime/files/beside_program.hpp"
#include "runtime/files/trusted_file.hpp"

extern char** environ;

namespace stepfuse::sass {
namespace {

[[noreturn]] void fail(const std::string& program, std::string_view what) {
  throw Error(ErrorKind::device, fmt::format("{}: {}", program, what));
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

void write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = write(file, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) throw Error(ErrorKind::device, "out of memory for a copy of the cubin");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

std::string output_of(const std::vector<std::string>& words) {
  int ends[2];
  if (pipe(ends) != 0) fail(words[0], std::strerror(errno));
  Descriptor from(ends[0]), to(ends[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addclose(&actions, from.number());
  posix_spawn_file_actions_adddup2(&actions, to.number(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, to.number(), STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& w : words) arguments.push_back(const_cast<char*>(w.c_str()));
  arguments.push_back(nullptr);
  pid_t child = -1;
  int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) fail(words[0], std::strerror(failed));
  to.close();

  std::string text;
  std::array<char, 65536> chunk;
  while (true) {
    ssize_t n = read(from.number(), chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    text.append(chunk.data(), static_cast<size_t>(n));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fail(words[0], text.empty() ? "it failed and printed nothing" : text.substr(0, 400));
  }
  return text;
}

}  // namespace

std::string find_disassembler() {
  if (const char* named = std::getenv("STEPFUSE_NVDISASM"); named != nullptr && *named != '\0')
    return named;
  const char* path = std::getenv("PATH");
  for (std::string_view folder : split(path != nullptr ? path : "", ":")) {
    std::filesystem::path program = std::filesystem::path(folder) / "nvdisasm";
    if (access(program.c_str(), X_OK) == 0) return program;
  }
  // The user did not name this file, so it must not be one that other users can write.
  for (const std::filesystem::path& folder : folders_beside_program("nvdisasm")) {
    std::filesystem::path program = folder / "nvdisasm";
    if (access(program.c_str(), X_OK) == 0 && is_trusted(folder) && is_trusted(program)) {
      return program;
    }
  }
  for (const PipFolder& pip : folders_of_pip("bin")) {
    std::filesystem::path program = pip.folder / "nvdisasm";
    bool is_safe = !pip.found || (is_trusted(pip.folder) && is_trusted(program));
    if (access(program.c_str(), X_OK) == 0 && is_safe) return program;
  }
  return "";
}

std::string require_disassembler() {
  std::string program = find_disassembler();
  if (!program.empty()) return program;
  throw Error(ErrorKind::device,
              "nvdisasm was not found, which reads machine code: `pip install "
              "nvidia-cuda-nvdisasm` in the active environment, or name the program in "
              "STEPFUSE_NVDISASM, or put the CUDA toolkit's into the PATH");
}

std::string disassembler_version(const std::string& program) {
  constexpr std::string_view kBefore = "release ";
  std::string text = output_of({program, "--version"});
  size_t begin = text.find(kBefore);
  if (begin == std::string::npos) fail(program, "it printed no version");
  begin += kBefore.size();
  return text.substr(begin, text.find(',', begin) - begin);
}

std::string disassemble(const std::string& program, std::string_view cubin,
                        const std::vector<std::string>& words) {
  // An unnamed file, which the child opens through its descriptor.
  Descriptor file(memfd_create("stepfuse-cubin", 0));
  write_all(file.number(), cubin);
  std::vector<std::string> call = {program};
  call.insert(call.end(), words.begin(), words.end());
  call.push_back(fmt::format("/proc/self/fd/{}", file.number()));
  return output_of(call);
}

}  // namespace stepfuse::sass
