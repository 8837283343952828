// The processor time that a test's code took. Unlike the time on the wall it does not grow with the load of the
// machine, so a test may bound it. Knows only std.
#pragma once

#include <ctime>

namespace stepfuse::testing {

// Counts the seconds of all threads of this process since it was made.
class ProcessorTime {
 public:
  double seconds() const { return now() - begin_; }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  double begin_ = now();
};

}  // namespace stepfuse::testing
