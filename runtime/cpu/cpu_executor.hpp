// Threads that share a range of chunks: a thin layer over oneTBB. This header knows only std.
#pragma once

#include <cstdint>
#include <memory>

namespace stepfuse {

class CpuExecutor {
 public:
  // 0 stands for all threads that the process may use. A larger number than the machine or the process
  // can have is reduced. The threads are oneTBB's, and all executors of the process share them; the
  // caller of for_ranges is one of them.
  explicit CpuExecutor(int threads = 0);
  ~CpuExecutor();
  CpuExecutor(const CpuExecutor&) = delete;
  CpuExecutor& operator=(const CpuExecutor&) = delete;

  int threads() const noexcept { return threads_; }

  // Calls f(context, begin, end) for ranges that together are [begin, end), several at a time, and
  // returns when all are done. A range of at most `grain` chunks runs on the caller. `f` must not throw.
  using RangeFunction = void (*)(const void* context, uint32_t begin, uint32_t end);
  void for_ranges(uint32_t begin, uint32_t end, uint32_t grain, RangeFunction f,
                  const void* context) const noexcept;

 private:
  struct Arena;
  std::shared_ptr<Arena> arena_;  // null if the calling thread's own arena is used
  int threads_;
};

}  // namespace stepfuse
