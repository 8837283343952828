// Standard output and standard error: progress where somebody watches, and what is lost. Knows the
// terminal and the clock.
#include "tools/cli/terminal.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include "tools/cli/verbs.hpp"

namespace stepfuse::cli {

bool is_terminal(int descriptor) { return isatty(descriptor) != 0; }

void claim_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // The lowest free number is the closed one. Opened the wrong way round on purpose.
    if (::fcntl(fd, F_GETFD) < 0) ::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void complain(std::string_view text) noexcept {
  if (std::fwrite(text.data(), 1, text.size(), stderr) < text.size()) std::clearerr(stderr);
}

int finish_output(int code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  // Where an earlier write failed, its reason is gone by now.
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
