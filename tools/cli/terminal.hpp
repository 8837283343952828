// Standard output and standard error: progress on a terminal, and errors of writing. Knows the
// terminal and the clock.
#pragma once

#include <chrono>
#include <string_view>

namespace stepfuse::cli {

bool is_terminal(int descriptor);

// Occupies closed standard streams, so that no file that is opened later gets their number. Reading
// or writing such a stream still fails.
void claim_standard_streams();

// Writes to standard error. Never throws: if the text cannot be written, the exit code still tells.
void complain(std::string_view text) noexcept;

// Writes an error or a warning in colour if a terminal shows it and NO_COLOR is not set. The colour
// marks the word "error:", the caret under a line, or the tool's name.
void complain_of_fault(std::string_view text) noexcept;

// Flushes standard output. Returns `code`, or kMachine if something printed could not be written.
int finish_output(int code);

// One line that is redrawn. It appears only on a terminal and after a second, and disappears when
// done.
class Progress {
 public:
  Progress() : start_(Clock::now()) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `done` is in 0 … 1, or below 0 if unknown.
  void show(double done, std::string_view what);
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
  Clock::time_point last_{};
  bool shown_ = false;
};

}  // namespace stepfuse::cli
