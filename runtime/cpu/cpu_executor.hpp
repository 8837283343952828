// Threads that share a range of chunks: a thin layer over oneTBB. Knows only std here.
#pragma once

#include <cstdint>
#include <memory>

namespace stepfuse {

class CpuExecutor {
 public:
  // 0 = as many threads as the process may use; more than the machine has, or than can be had, are
  // not used. Threads are oneTBB's, shared by all executors of the process; the caller of for_ranges
  // is one of them.
  explicit CpuExecutor(int threads = 0);
  ~CpuExecutor();
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  int threads() const noexcept { return threads_; }

  // Calls f(context, begin, end) for ranges that together are [begin, end), several at once, and
  // returns when all are done. Ranges of at most `grain` run on the caller. `f` must not throw.
  using RangeFunction = void (*)(const void* context, uint32_t begin, uint32_t end);
  void for_ranges(uint32_t begin, uint32_t end, uint32_t grain, RangeFunction f,
                  const void* context) const noexcept;

 private:
  struct Arena;
  std::shared_ptr<Arena> arena_;  // null: the calling thread's own
  int threads_;
};

}  // namespace stepfuse
