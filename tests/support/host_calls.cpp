// The counting allocator and mutex functions. Knows the C library.
#include "tests/support/host_calls.hpp"

#if STEPFUSE_COUNTS_HOST_CALLS

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>

namespace {
std::atomic<bool> g_counting{false};
std::atomic<uint64_t> g_allocations{0};
std::atomic<uint64_t> g_locks{0};
std::atomic<int (*)()> g_elsewhere{nullptr};

void count(std::atomic<uint64_t>& counter) {
  if (!g_counting.load(std::memory_order_relaxed)) return;
  int (*elsewhere)() = g_elsewhere.load(std::memory_order_relaxed);
  if (elsewhere != nullptr && elsewhere() != 0) return;
  counter.fetch_add(1, std::memory_order_relaxed);
}

template <class F>
F next(const char* name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t n, size_t size);
void* __libc_realloc(void* p, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  count(g_allocations);
  return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
  count(g_allocations);
  return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
  count(g_allocations);
  return __libc_realloc(p, size);
}
void* memalign(size_t alignment, size_t size) {
  count(g_allocations);
  return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  count(g_allocations);
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  count(g_allocations);
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? ENOMEM : 0;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  static const auto real = next<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
  count(g_locks);
  return real(mutex);
}
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) {
  static const auto real = next<int (*)(pthread_rwlock_t*)>("pthread_rwlock_rdlock");
  count(g_locks);
  return real(lock);
}
int pthread_rwlock_wrlock(pthread_rwlock_t* lock) {
  static const auto real = next<int (*)(pthread_rwlock_t*)>("pthread_rwlock_wrlock");
  count(g_locks);
  return real(lock);
}
}

namespace stepfuse::testing {

void start_counting(int (*elsewhere)()) {
  g_elsewhere = elsewhere;
  g_allocations = 0;
  g_locks = 0;
  g_counting = true;
}
HostCalls stop_counting() {
  g_counting = false;
  return {g_allocations, g_locks};
}

}  // namespace stepfuse::testing

#endif
