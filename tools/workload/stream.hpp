// What the memory of this machine can do, measured with the threads, vectors and pages that the
// steps use. Knows the steps' threads and the system's pages.
#pragma once

#include <cstddef>
#include <initializer_list>

#include "runtime/cpu/cpu_executor.hpp"

namespace stepfuse {

// Zeroed floats on huge pages where the system has them.
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

// The streams on the threads of a step's device: ranges are handed out as a step's are.
class Streams {
 public:
  explicit Streams(int threads = 0) : executor_(threads) {}  // 0: all
  int threads() const { return executor_.threads(); }

  // The shape of an Adam update: reads all four arrays once and writes the last three in place.
  // 28 bytes an element.
  void update(const float* grad, float* weight, float* exp_avg, float* exp_avg_sq,
              size_t count) const;

  // Reads alone, 4 bytes an element of each array, as a phase does that takes a norm: slower, byte
  // for byte, than `update`, whose writes pass beside its reads. Returns the sum of some of them.
  float read(std::initializer_list<const float*> arrays, size_t count) const;

  // STREAM's triad, a = b + s * c, with plain stores: 12 bytes an element as STREAM counts them.
  void triad(float* a, const float* b, const float* c, size_t count) const;

 private:
  CpuExecutor executor_;
};

}  // namespace stepfuse
