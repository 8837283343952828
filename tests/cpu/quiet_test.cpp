// Counts what a run may not do: allocate, or take a lock. The allocator and the mutex functions of
// the whole process are replaced by counting ones.
#include <cstdlib>

#include <doctest/doctest.h>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)

#include <atomic>
#include <cerrno>
#include <chrono>
#include <dlfcn.h>
#include <ostream>
#include <pthread.h>
#include <vector>

#include <stepfuse/stepfuse.hpp>

namespace {
std::atomic<bool> g_counting{false};
std::atomic<uint64_t> g_allocations{0};
std::atomic<uint64_t> g_locks{0};

void count(std::atomic<uint64_t>& counter) {
  if (g_counting.load(std::memory_order_relaxed)) counter.fetch_add(1, std::memory_order_relaxed);
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

namespace {

using namespace stepfuse;

// A whole AMP step over tensors of the given sizes, ready to run.
class Trainer {
 public:
  Trainer(const std::vector<uint64_t>& sizes, int threads, Form form = Form::fused)
      : step_(make_recipe("adamw", {.grad = DType::f16,
                                    .master = true,
                                    .loss_scale = LossScale::dynamic,
                                    .clip = Clip::l2}),
              layout(sizes), Device::cpu(threads), {.form = form, .scaler = &scaler_}),
        args_(step_.make_args()) {
    step_.prepare();
    for (const char* buffer : {"weight", "master", "exp_avg", "exp_avg_sq"}) {
      step_.bind(buffer, arrays(sizes));
    }
    step_.init_state();
    gradients_[0] = arrays(sizes);
    gradients_[1] = arrays(sizes);
    gradients_[1][0] = nullptr;
    args_.set("lr", 1e-3);
    args_.set("max_norm", 1.0);
  }

  void run(int i) { step_.run(gradients_[i % 2], args_); }
  const Step& step() const { return step_; }

 private:
  static Layout layout(const std::vector<uint64_t>& sizes) {
    Layout result;
    for (uint64_t n : sizes) result.add({.size = n});
    return result;
  }
  std::vector<void*> arrays(const std::vector<uint64_t>& sizes) {
    std::vector<void*> result;
    for (uint64_t n : sizes) result.push_back(memory_.emplace_back(n + 1).data());
    return result;
  }

  std::vector<std::vector<float>> memory_;
  std::vector<void*> gradients_[2];
  LossScaler scaler_;
  Step step_;
  Args args_;
};

struct Counts {
  uint64_t allocations = 0, locks = 0;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Counts& c) {
    return out << c.allocations << " allocations, " << c.locks << " locks";
  }
};

Counts count_runs(const std::vector<uint64_t>& sizes, int threads, Form form) {
  Trainer trainer(sizes, threads, form);
  for (int i = 0; i < 20; ++i) trainer.run(i);
  g_allocations = 0;
  g_locks = 0;
  g_counting = true;
  for (int i = 0; i < 1000; ++i) trainer.run(i);
  g_counting = false;
  return {g_allocations, g_locks};
}

}  // namespace

TEST_CASE("1,000 runs after warm-up make no allocation and take no lock") {
  const std::vector<uint64_t> mixed = {300000, 1, 5000, 0, 40000}, tiny(500, 3);
  for (int threads : {1, 2}) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      for (const auto& sizes : {mixed, tiny}) {
        CHECK(count_runs(sizes, threads, form) == Counts{});
      }
    }
  }
  // The counters do count.
  g_counting = true;
  delete new std::vector<int>(100);
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  g_counting = false;
  CHECK(g_allocations > 0);
  CHECK(g_locks > 0);
}

TEST_CASE("a run over one tensor of one element takes at most 5 us") {
  Trainer trainer({1}, 0);
  trainer.run(0);
  double best = 1;
  for (int round = 0; round < 50; ++round) {
    auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 100; ++i) trainer.run(0);
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::min(best, seconds.count() / 100);
  }
  CHECK(best < 5e-6);
}

#endif
