// What a fork() must not cut in half: compiling, and what is done under a lock. Knows nothing.
#pragma once

namespace stepfuse {

// While one lives, a lock may be held and a kernel be compiled. A process that was forked meanwhile,
// by another thread, has those locks and unfinished kernels without the thread that would release and
// finish them: its next ForkWatch throws Error{usage} instead of waiting for ever. To be destroyed by
// the thread that made it.
class ForkWatch {
 public:
  ForkWatch();
  ~ForkWatch();
  ForkWatch(const ForkWatch&) = delete;
  ForkWatch& operator=(const ForkWatch&) = delete;
};

// Whether this process was forked by one that had a ForkWatch before: it has none of its threads.
bool is_forked() noexcept;

}  // namespace stepfuse
