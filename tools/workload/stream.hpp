// The memory bandwidth of this machine, measured with the threads, vectors and pages that steps
// use. Knows the steps' threads and the system's pages.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "runtime/cpu/cpu_executor.hpp"

namespace stepfuse {

// Zeroed floats, on huge pages if the system has them.
class HugeArray {
 public:
  explicit HugeArray(size_t count);
  ~HugeArray();
  HugeArray(const HugeArray&) = delete;
  HugeArray& operator=(const HugeArray&) = delete;
  float* data() const { return data_; }

 private:
  size_t bytes_;
  float* data_;
};

// Streams on the threads of a step's device, which get their ranges as in a step.
class Streams {
 public:
  explicit Streams(int threads = 0) : executor_(threads) {}  // 0: all
  int threads() const { return executor_.threads(); }

  // Has the shape of an Adam update: reads four arrays once and writes the last three in place, 28
  // bytes per element.
  void update(const float* grad, float* weight, float* exp_avg, float* exp_avg_sq,
              size_t count) const;

  // Only reads, like a phase that takes a norm: 4 bytes per element of each array. Its bandwidth is
  // lower than that of `update`, whose writes overlap with its reads. Returns the sum of some
  // elements.
  float read(std::initializer_list<const float*> arrays, size_t count) const;

  // STREAM's triad, a = b + s * c, with plain stores: 12 bytes per element as STREAM counts them.
  void triad(float* a, const float* b, const float* c, size_t count) const;

 private:
  CpuExecutor executor_;
};

}  // namespace stepfuse
