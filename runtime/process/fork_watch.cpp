// Counts the work that a fork must not interrupt. Knows stepfuse's errors and pthreads.
//
// A forked process has none of its parent's threads, and runs the parent's steps on the calling thread. If another
// thread held a lock or compiled at the fork, an error says so instead of a hang.
#include "runtime/process/fork_watch.hpp"

#include <atomic>
#include <pthread.h>

#include <stepfuse/error.hpp>

namespace stepfuse {
namespace {

std::atomic<int> g_under_way{0};
thread_local int t_under_way = 0;  // the calling thread's share
std::atomic<bool> g_used{false};   // whether there has ever been a watch
std::atomic<bool> g_forked{false};
std::atomic<bool> g_cut_in_half{false};

// Runs in the child, in which only the forking thread exists and continues.
void after_fork() {
  if (g_used) g_forked = true;
  if (g_under_way.exchange(t_under_way) > t_under_way) g_cut_in_half = true;
}

[[maybe_unused]] const int g_registered = pthread_atfork(nullptr, nullptr, after_fork);

}  // namespace

ForkWatch::ForkWatch() {
  if (g_cut_in_half) {
    throw Error(
        ErrorKind::usage,
        "this process was forked while a different thread of its parent made or prepared a step, "
        "and that thread is missing here: fork before or after that, or exec after the fork");
  }
  g_used = true;
  ++t_under_way;
  ++g_under_way;
}

ForkWatch::~ForkWatch() {
  --g_under_way;
  --t_under_way;
}

bool is_forked() noexcept { return g_forked.load(std::memory_order_relaxed); }

}  // namespace stepfuse
