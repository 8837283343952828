// Progress on standard error, where somebody watches. Knows the terminal and the clock.
#include "tools/cli/terminal.hpp"

#include <cstdio>
#include <unistd.h>

#include <fmt/format.h>

namespace stepfuse::cli {

bool is_terminal(int descriptor) { return isatty(descriptor) != 0; }

void Progress::show(double done, std::string_view what) {
  using namespace std::chrono_literals;
  static const bool watched = is_terminal(STDERR_FILENO);
  Clock::time_point now = Clock::now();
  if (!watched || now - start_ < 1s || (shown_ && now - last_ < 100ms)) return;
  last_ = now;
  shown_ = true;
  std::string percent = done < 0 ? "" : fmt::format("{:3.0f}% ", 100 * done);
  fmt::print(stderr, "\r\033[K{}{} … {:.0f} s", percent, what,
             std::chrono::duration<double>(now - start_).count());
  std::fflush(stderr);
}

void Progress::clear() {
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

}  // namespace stepfuse::cli
