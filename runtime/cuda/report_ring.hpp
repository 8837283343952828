// Page-locked memory in which the device leaves the reports of finished steps. The kernel's last block
// writes it, and the host polls it. Knows the driver and the ring.
#pragma once

#include <atomic>
#include <vector>

#include "runtime/cuda/cuda_memory.hpp"
#include "runtime/device/stats_ring.hpp"

namespace stepfuse::cuda {

class ReportRing {
 public:
  ReportRing(std::shared_ptr<Context> context, size_t reports, uint32_t capacity)
      : width_(reports + 1),
        capacity_(capacity),
        memory_(std::move(context), width_ * capacity * sizeof(uint64_t)),
        raw_(reports) {
    for (size_t i = 0; i < width_ * capacity_; ++i) word(i).store(0, std::memory_order_relaxed);
  }

  uint64_t* device() const { return static_cast<uint64_t*>(memory_.device()); }
  uint32_t capacity() const { return capacity_; }

  // Moves finished records into `ring`. Record 0 belongs to step `first_index`.
  void collect(StatsRing& ring, uint64_t first_index) noexcept {
    for (;;) {
      size_t record = static_cast<size_t>(next_ % capacity_) * width_;
      auto number = static_cast<uint32_t>(word(record).load(std::memory_order_acquire));
      auto expected = static_cast<uint32_t>(next_ + 1);
      auto ahead = static_cast<int32_t>(number - expected);
      if (number == 0 || ahead < 0) return;
      if (ahead > 0) {  // this record and those before it are overwritten
        next_ += static_cast<uint32_t>(ahead) - capacity_ + 1;
        continue;
      }
      for (size_t i = 0; i < raw_.size(); ++i) {
        raw_[i] = word(record + 1 + i).load(std::memory_order_relaxed);
      }
      std::atomic_thread_fence(std::memory_order_acquire);
      if (word(record).load(std::memory_order_relaxed) != number) continue;
      ring.push(first_index + next_, raw_.data());
      ++next_;
    }
  }

 private:
  std::atomic_ref<uint64_t> word(size_t i) noexcept {
    return std::atomic_ref<uint64_t>(reinterpret_cast<uint64_t*>(memory_.host())[i]);
  }

  size_t width_;
  uint32_t capacity_;
  PinnedMemory memory_;
  std::vector<uint64_t> raw_;
  uint64_t next_ = 0;  // number of records read
};

}  // namespace stepfuse::cuda
