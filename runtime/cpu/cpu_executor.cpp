// Runs chunk ranges on oneTBB's threads. The only file that knows oneTBB.
#include "runtime/cpu/cpu_executor.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include "runtime/process/fork_watch.hpp"

namespace stepfuse {

// Moving a worker from one arena to another takes tens of microseconds, which is as long as a small step.
// Therefore executors with the same thread count share an arena, and those that may use all threads work
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

namespace {

// Returns how many of `wanted` threads, including the calling one, this process may have. oneTBB starts
// threads when there is work, some of them from its own threads, where a failure would end the process.
// Therefore this function tries it first, once per number.
int obtainable_threads(int wanted) {
  static std::mutex mutex;
  static int known_good = 1;
  std::lock_guard lock(mutex);
  if (wanted <= known_good) return wanted;
  std::latch done(1);  // outlives the threads that wait for it
  std::vector<std::jthread> others;
  try {
    others.reserve(static_cast<size_t>(wanted) - 1);
    while (static_cast<int>(others.size()) + 1 < wanted) others.emplace_back([&] { done.wait(); });
  } catch (const std::system_error&) {  // a limit on processes or on address space
  }
  done.count_down();
  int got = static_cast<int>(others.size()) + 1;
  known_good = std::max(known_good, got);
  return got;
}

}  // namespace

CpuExecutor::CpuExecutor(int threads)
    : threads_(obtainable_threads(threads > 0 ? std::min(threads, tbb::info::default_concurrency())
                                              : tbb::this_task_arena::max_concurrency())) {
  if (threads_ > 1 && threads_ != tbb::this_task_arena::max_concurrency()) {
    arena_ = Arena::of(threads_);
  }
}
CpuExecutor::~CpuExecutor() = default;

void CpuExecutor::for_ranges(uint32_t begin, uint32_t end, uint32_t grain, RangeFunction f,
                             const void* context) const noexcept {
  if (begin >= end) return;
  // A forked process has none of its parent's threads.
  bool alone = threads_ == 1 || is_forked();
  if (alone || end - begin <= grain) return f(context, begin, end);
  // Blocks of `grain` chunks are handed out on demand. A thread that is held up (by a different process
  // or a hyperthread) then delays one block instead of a static share of the work.
  std::atomic<uint64_t> next{begin};
  auto take_ranges = [&]() noexcept {
    for (uint64_t at = next.fetch_add(grain); at < end; at = next.fetch_add(grain)) {
      f(context, static_cast<uint32_t>(at),
        static_cast<uint32_t>(std::min<uint64_t>(end, at + grain)));
    }
  };
  uint32_t ranges = (end - begin + grain - 1) / grain;
  int takers = static_cast<int>(std::min(ranges, static_cast<uint32_t>(threads_)));
// oneTBB's library is not built for ThreadSanitizer, which would report a race in every task. Under
// ThreadSanitizer our own threads run the ranges.
#if defined(__SANITIZE_THREAD__)
  std::vector<std::jthread> others;
  for (int i = 1; i < takers; ++i) others.emplace_back(take_ranges);
#else
  auto work = [&] {
    // Isolate the context: if the caller cancels its own task group, the step must still complete.
    tbb::task_group_context isolated(tbb::task_group_context::isolated);
    tbb::parallel_for(0, takers, [&](int) { take_ranges(); }, tbb::simple_partitioner(), isolated);
  };
  try {
    if (arena_)
      arena_->arena.execute(work);
    else
      work();
  } catch (...) {  // no thread could be started: the existing ones do the work
  }
#endif
  take_ranges();
}

}  // namespace stepfuse
