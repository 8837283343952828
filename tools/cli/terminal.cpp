// Standard output and standard error: progress on a terminal, and errors of writing. Knows the
// terminal and the clock.
#include "tools/cli/terminal.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <string>
#include <unistd.h>
#include <utility>

#include <fmt/format.h>

#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {

bool is_terminal(int descriptor) { return isatty(descriptor) != 0; }

void claim_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open() takes the lowest free number, which is the closed one. The wrong direction is on
    // purpose: every use fails.
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void complain(std::string_view text) noexcept {
  if (std::fwrite(text.data(), 1, text.size(), stderr) < text.size()) std::clearerr(stderr);
}

namespace {

bool shows_colour() {
  const char* forbidden = std::getenv("NO_COLOR");
  const char* kind = std::getenv("TERM");
  bool is_forbidden = forbidden != nullptr && *forbidden != '\0';
  bool is_dumb = kind == nullptr || std::string_view(kind) == "dumb";
  return is_terminal(STDERR_FILENO) && !is_forbidden && !is_dumb;
}

constexpr std::string_view kRed = "\033[1;31m", kYellow = "\033[1;33m", kGreen = "\033[1;32m";
constexpr std::string_view kPlain = "\033[0m";

std::string paint_line(std::string_view line, bool is_first) {
  if (line.ends_with('^') && line.find_first_not_of(' ') == line.size() - 1) {
    return fmt::format("{}{}^{}", line.substr(0, line.size() - 1), kGreen, kPlain);
  }
  for (auto [word, colour] : {std::pair(std::string_view(": error: "), kRed),
                              std::pair(std::string_view(": warning: "), kYellow)}) {
    size_t at = line.find(word);
    if (at == std::string_view::npos) continue;
    return fmt::format("{}{}{}{} {}", line.substr(0, at + 2), colour,
                       word.substr(2, word.size() - 3), kPlain, line.substr(at + word.size()));
  }
  size_t colon = line.find(':');
  if (is_first && line.starts_with("stepfuse") && colon != std::string_view::npos) {
    return fmt::format("{}{}{}{}", kRed, line.substr(0, colon + 1), kPlain, line.substr(colon + 1));
  }
  return std::string(line);
}

}  // namespace

void complain_of_fault(std::string_view text) noexcept {
  if (!shows_colour()) return complain(text);
  try {
    std::string painted;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      painted += paint_line(text.substr(at, end - at), at == 0);
      if (end < text.size()) painted += '\n';
      at = end + 1;
    }
    complain(painted);
  } catch (const std::bad_alloc&) {
    complain(text);
  }
}

int finish_output(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  // errno no longer has the reason if an earlier write failed.
  std::string why = errno != 0 ? fmt::format(": {}", std::strerror(errno)) : "";
  complain(fmt::format("stepfuse: cannot write to standard output{}\n", why));
  return code == kOk || code == kBug ? kMachine : code;
}

void Progress::show(double done, std::string_view what) {
  using namespace std::chrono_literals;
  static const bool watched = is_terminal(STDERR_FILENO);
  Clock::time_point now = Clock::now();
  if (!watched || now - start_ < 1s || (shown_ && now - last_ < 100ms)) return;
  last_ = now;
  shown_ = true;
  std::string percent = done < 0 ? "" : fmt::format("{:3.0f}% ", 100 * done);
  complain(fmt::format("\r\033[K{}{} … {:.0f} s", percent, what,
                       std::chrono::duration<double>(now - start_).count()));
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown_) complain("\r\033[K");
  shown_ = false;
}

}  // namespace stepfuse::cli
