// Chunk ranges on oneTBB's threads. The only file that knows oneTBB.
#include "runtime/cpu/cpu_executor.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

// oneTBB's library is not built for ThreadSanitizer, which then sees a race in every task: under it
// the ranges are run by threads of our own.
#if defined(__SANITIZE_THREAD__)
#include <atomic>
#include <thread>
#include <vector>
#endif

namespace stepfuse {

// A worker takes tens of microseconds to move from one arena to another, which is as long as a
// small step: executors of one thread count share an arena, and those that may use all threads work
// in the calling thread's own.
struct CpuExecutor::Arena {
  explicit Arena(int threads) : arena(threads) { arena.initialize(); }
  mutable tbb::task_arena arena;

  static std::shared_ptr<Arena> of(int threads) {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<Arena>> arenas;
    std::lock_guard lock(mutex);
    std::weak_ptr<Arena>& known = arenas[threads];
    std::shared_ptr<Arena> result = known.lock();
    if (!result) known = result = std::make_shared<Arena>(threads);
    return result;
  }
};

CpuExecutor::CpuExecutor(int threads)
    : threads_(threads > 0 ? std::min(threads, tbb::info::default_concurrency())
                           : tbb::this_task_arena::max_concurrency()) {
  if (threads_ > 1 && threads_ != tbb::this_task_arena::max_concurrency()) {
    arena_ = Arena::of(threads_);
  }
}
CpuExecutor::~CpuExecutor() = default;

void CpuExecutor::for_ranges(uint32_t begin, uint32_t end, uint32_t grain, RangeFunction f,
                             const void* context) const noexcept {
  if (begin >= end) return;
  if (threads_ == 1 || end - begin <= grain) return f(context, begin, end);
#if defined(__SANITIZE_THREAD__)
  std::atomic<uint64_t> next{begin};
  auto take_ranges = [&] {
    for (uint64_t at = next.fetch_add(grain); at < end; at = next.fetch_add(grain)) {
      f(context, static_cast<uint32_t>(at),
        static_cast<uint32_t>(std::min<uint64_t>(end, at + grain)));
    }
  };
  std::vector<std::jthread> others;
  for (int i = 1; i < threads_; ++i) others.emplace_back(take_ranges);
  take_ranges();
#else
  // Blocks of `grain` chunks handed out on demand: a thread that the machine holds up (another
  // process, a hyperthread) then delays one block, not its static share.
  auto work = [&] {
    tbb::parallel_for(
        tbb::blocked_range<uint32_t>(begin, end, grain),
        [&](const tbb::blocked_range<uint32_t>& r) { f(context, r.begin(), r.end()); },
        tbb::simple_partitioner());
  };
  if (arena_)
    arena_->arena.execute(work);
  else
    work();
#endif
}

}  // namespace stepfuse
