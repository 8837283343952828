// Chunk ranges on oneTBB's threads. The only file that knows oneTBB.
#include "runtime/cpu/cpu_executor.hpp"

#include <algorithm>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

namespace stepfuse {

struct CpuExecutor::Arena {
  explicit Arena(int threads) : arena(threads) {}
  mutable tbb::task_arena arena;
};

CpuExecutor::CpuExecutor(int threads)
    : threads_(threads > 0 ? threads : tbb::this_task_arena::max_concurrency()) {
  if (threads_ > 1) {
    arena_ = std::make_unique<Arena>(threads_);
    arena_->arena.initialize();
  }
}
CpuExecutor::~CpuExecutor() = default;

void CpuExecutor::for_ranges(uint32_t begin, uint32_t end, uint32_t grain, RangeFunction f,
                             const void* context) const noexcept {
  if (begin >= end) return;
  if (!arena_ || end - begin <= grain) return f(context, begin, end);
  // Blocks of `grain` chunks handed out on demand: a thread that the machine holds up (another
  // process, a hyperthread) then delays one block, not its static share.
  tbb::blocked_range<uint32_t> range(begin, end, grain);
  arena_->arena.execute([&] {
    tbb::parallel_for(
        range, [&](const tbb::blocked_range<uint32_t>& r) { f(context, r.begin(), r.end()); },
        tbb::simple_partitioner());
  });
}

}  // namespace stepfuse
