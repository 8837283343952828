// Progress on standard error, where somebody watches. Knows the terminal and the clock.
#pragma once

#include <chrono>
#include <string_view>

namespace stepfuse::cli {

bool is_terminal(int descriptor);

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
