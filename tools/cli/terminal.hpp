// Standard output and standard error: progress where somebody watches, and what is lost. Knows the
// terminal and the clock.
#pragma once

#include <chrono>
#include <string_view>

namespace stepfuse::cli {

bool is_terminal(int descriptor);

// A closed standard stream would be the next file that is opened: from here on it is none, and reading
// or writing it fails.
void claim_standard_streams();

// To standard error. Never throws: where nobody can be told, the exit code still says it.
void complain(std::string_view text) noexcept;

// The same for an error or a warning, in colour if a terminal shows it and NO_COLOR is not set: the
// word "error:", the caret under a line, or the tool's name.
void complain_of_fault(std::string_view text) noexcept;

// The exit code, once everything printed has reached standard output; that of a machine that
// failed if it has not.
int finish_output(int code);

// One line that is redrawn, shown only on a terminal and only after a second; gone when done.
class Progress {
 public:
  Progress() : start_(Clock::now()) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` in 0 … 1; below 0: not known.
  void show(double done, std::string_view what);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  Clock::time_point last_{};
  bool shown_ = false;
};

}  // namespace stepfuse::cli
