// Counts what a fork must not cut in half. Knows ir errors and pthreads.
#include "runtime/fork_watch.hpp"

#include <atomic>
#include <pthread.h>

#include <stepfuse/error.hpp>

namespace stepfuse {
namespace {

std::atomic<int> g_under_way{0};
std::atomic<bool> g_forked{false};
std::atomic<bool> g_cut_in_half{false};

// In the child: the thread that forked is the only one.
void after_fork() {
  g_forked = true;
  if (g_under_way.exchange(0) > 0) g_cut_in_half = true;
}

[[maybe_unused]] const int g_registered = pthread_atfork(nullptr, nullptr, after_fork);

}  // namespace

ForkWatch::ForkWatch() {
  if (g_cut_in_half) {
    throw Error(ErrorKind::usage,
                "this process was forked while another thread of its parent made or prepared a "
                "step, which nobody finishes here: fork before or after that, or exec after the "
                "fork");
  }
  ++g_under_way;
}

ForkWatch::~ForkWatch() { --g_under_way; }

bool is_forked() noexcept { return g_forked.load(std::memory_order_relaxed); }

}  // namespace stepfuse
