// The processor time that a test's code took, in multiples of a fixed piece of work. This number grows neither with
// the load of the machine nor, much, with its slowness or with a sanitizer, so a test may bound it. Knows only std.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <limits>
#include <vector>

namespace stepfuse::testing {

// Counts the processor time of all threads of this process since it was made.
class ProcessorTime {
 public:
  // How many times a million numbers could have been sorted: about 70 ms each on a machine of 2023.
  double sorts() const {
    const double took = now() - begin_;
    static const double one = time_of_sort();
    return took / one;
  }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  static double time_of_sort() {
    double least = std::numeric_limits<double>::max();
    for (int again = 0; again < 3; ++again) {
      std::vector<uint32_t> numbers(1'000'000);
      uint32_t noise = 1;
      for (uint32_t& n : numbers) n = noise = noise * 1664525 + 1013904223;
      const double begin = now();
      std::sort(numbers.begin(), numbers.end());
      least = std::min(least, now() - begin);
    }
    return least;
  }

  double begin_ = now();
};

}  // namespace stepfuse::testing
