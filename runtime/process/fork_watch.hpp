// Marks work that a fork() must not interrupt: compiling, and everything done under a lock. Knows nothing.
#pragma once

namespace stepfuse {

// While one of these lives, a lock may be held and a kernel may be half compiled. If a different thread
// forks meanwhile, the child has those locks and kernels without the thread that would release and finish
// them. Therefore the child's next ForkWatch throws Error{usage} instead of waiting forever. The thread
// that makes a ForkWatch must also destroy it.
class ForkWatch {
 public:
  ForkWatch();
  ~ForkWatch();
  ForkWatch(const ForkWatch&) = delete;
  ForkWatch& operator=(const ForkWatch&) = delete;
};

// Whether this process was forked by one that had used a ForkWatch. It then has none of its threads.
bool is_forked() noexcept;

}  // namespace stepfuse
