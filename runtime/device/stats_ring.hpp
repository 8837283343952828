// The reports of the last steps, written by the step and read by any thread. Knows only std.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace stepfuse {

// One writer, any number of readers; neither waits. A slot's sequence number is odd while the slot is
// written, so that a reader can detect a torn record and skip it.
class StatsRing {
 public:
  StatsRing(size_t reports, size_t capacity)
      : reports_(reports),
        capacity_(capacity),
        sequences_(new std::atomic<uint64_t>[capacity]),
        values_(new std::atomic<uint64_t>[capacity * (reports + 1)]) {
    for (size_t i = 0; i < capacity; ++i) sequences_[i] = 0;
    for (size_t i = 0; i < capacity * (reports + 1); ++i) values_[i] = 0;
  }

  // `raw` holds one value per report.
  void push(uint64_t step_index, const uint64_t* raw) noexcept {
    uint64_t n = count_.load(std::memory_order_relaxed);
    size_t slot = n % capacity_;
    uint64_t sequence = sequences_[slot].load(std::memory_order_relaxed);
    sequences_[slot].store(sequence + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    std::atomic<uint64_t>* record = &values_[slot * (reports_ + 1)];
    record[0].store(step_index, std::memory_order_relaxed);
    for (size_t i = 0; i < reports_; ++i) record[i + 1].store(raw[i], std::memory_order_relaxed);
    sequences_[slot].store(sequence + 2, std::memory_order_release);
    count_.store(n + 1, std::memory_order_release);
  }

  struct Record {
    uint64_t step_index = 0;
    std::vector<uint64_t> raw;
  };
  uint64_t count() const noexcept { return count_.load(std::memory_order_acquire); }
  size_t capacity() const noexcept { return capacity_; }
  size_t reports() const noexcept { return reports_; }
  // Reads record number `n` (0 is the first ever pushed); false if it is gone or being overwritten.
  bool read(uint64_t n, Record& out) const {
    uint64_t total = count();
    if (n >= total || total - n > capacity_) return false;
    size_t slot = n % capacity_;
    uint64_t before = sequences_[slot].load(std::memory_order_acquire);
    const std::atomic<uint64_t>* record = &values_[slot * (reports_ + 1)];
    out.step_index = record[0].load(std::memory_order_relaxed);
    out.raw.resize(reports_);
    for (size_t i = 0; i < reports_; ++i)
      out.raw[i] = record[i + 1].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    uint64_t after = sequences_[slot].load(std::memory_order_relaxed);
    return before == after && before % 2 == 0 && before == 2 * (n / capacity_ + 1);
  }

 private:
  size_t reports_;
  size_t capacity_;
  std::unique_ptr<std::atomic<uint64_t>[]> sequences_;
  std::unique_ptr<std::atomic<uint64_t>[]> values_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace stepfuse
