// What the memory of this machine can do, measured with the threads, vectors and pages that the
// steps use. Knows oneTBB and the system's pages.
#pragma once

#include <cstddef>

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

// Both run on the calling thread's share of oneTBB's threads, as a step does that may use all, and
// are cut into the same ranges.

// The shape of an Adam update: reads all four arrays once and writes the last three in place.
// 28 bytes an element.
void stream_update(const float* grad, float* weight, float* exp_avg, float* exp_avg_sq,
                   size_t count);

// STREAM's triad, a = b + s * c, with plain stores: 12 bytes an element as STREAM counts them.
void stream_triad(float* a, const float* b, const float* c, size_t count);

}  // namespace stepfuse::samples
