// What the memory of this machine can do, measured with the threads, vectors and pages that the
// steps use. Knows oneTBB and the system's pages.
#pragma once

#include <cstddef>
#include <memory>

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

// Streams on oneTBB's threads, cut into the same ranges as a step.
class Streams {
 public:
  explicit Streams(int threads);  // 0: all
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  int threads() const { return threads_; }

  // The shape of an Adam update: reads all four arrays once and writes the last three in place.
  // 28 bytes an element.
  void update(const float* grad, float* weight, float* exp_avg, float* exp_avg_sq,
              size_t count) const;

  // STREAM's triad, a = b + s * c, with plain stores: 12 bytes an element as STREAM counts them.
  void triad(float* a, const float* b, const float* c, size_t count) const;

 private:
  template <class F>
  void for_pieces(size_t count, const F& f) const;

  struct Arena;
  int threads_;
  std::unique_ptr<Arena> arena_;
};

}  // namespace stepfuse::samples
