// What the memory of this machine can do, measured with the threads, vectors and pages that the
// steps use. Knows only the CPU executor.
#pragma once

#include <cstddef>

#include "runtime/cpu/cpu_executor.hpp"

namespace stepfuse::samples {

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

// The shape of an Adam update: reads all four arrays once and writes the last three in place.
// 28 bytes an element.
void stream_update(const CpuExecutor& executor, const float* grad, float* weight, float* exp_avg,
                   float* exp_avg_sq, size_t count);

// STREAM's triad, a = b + s * c, with plain stores: 12 bytes an element as STREAM counts them.
void stream_triad(const CpuExecutor& executor, float* a, const float* b, const float* c,
                  size_t count);

}  // namespace stepfuse::samples
