// Runs inside of a busy process: a cancelled oneTBB task group, a limit on threads, a fork.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <optional>
#include <pthread.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <oneapi/tbb/task_group.h>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/cpu_executor.hpp"
#include "runtime/process/fork_watch.hpp"

using namespace stepfuse;

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define STEPFUSE_LIMITS_THREADS 1
namespace {
std::atomic<int> g_threads_left{-1};  // below 0: unlimited
}  // namespace

// Replaces the C library's function, also for oneTBB.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*function)(void*), void* data) {
  using Function = decltype(&pthread_create);
  static auto real = reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_create"));
  if (g_threads_left.load() >= 0 && g_threads_left.fetch_sub(1) <= 0) {
    g_threads_left = 0;
    return EAGAIN;
  }
  return real(thread, attributes, function, data);
}
#endif

namespace {

constexpr size_t kSize = 1 << 20;

// A step over 2^20 elements, enough for several threads.
struct Trainer {
  std::vector<float> weight = std::vector<float>(kSize, 1.0F);
  std::vector<float> grad = std::vector<float>(kSize, 1.0F);
  Step step = make();

  static Step make() {
    Layout layout;
    layout.add({.elements = kSize});
    return Step(make_recipe("sgd", {.clip = Clip::l2}), layout, Device::cpu());
  }
  Trainer() {
    step.bind_raw("weight", {weight.data()});
    step.prepare();
  }
  bool run_updates() {
    weight.assign(kSize, 1.0F);
    Args args = step.make_args();
    args.set("lr", 0.5);
    args.set("max_norm", 1e9);
    step.run({grad.data()}, args);
    for (float w : weight) {
      if (w != 0.5F) return false;
    }
    return true;
  }
};

// The exit code of a child process that calls `f`, or -1 if it did not end within seconds.
template <class F>
int in_child(F&& f) {
  pid_t child = fork();
  if (child == 0) {
    int code = 99;
    try {
      code = f();
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  for (int i = 0; i < 2000; ++i) {
    if (waitpid(child, &status, WNOHANG) == child)
      return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  return -1;
}

}  // namespace

TEST_CASE("a run inside of a cancelled task group does all of its work") {
  Trainer trainer;
  bool updated = false;
  tbb::task_group group;
  group.run_and_wait([&] {
    group.cancel();
    updated = trainer.run_updates();
  });
  CHECK(updated);
}

#if defined(STEPFUSE_LIMITS_THREADS)
TEST_CASE("where no more threads can be had, those that there are do it") {
  for (int limit : {0, 1, 2}) {
    // oneTBB has not started a thread in this process yet.
    int code = in_child([&] {
      g_threads_left = limit;
      CpuExecutor executor(8);
      std::vector<std::atomic<int>> touched(1000);
      executor.for_ranges(
          0, 1000, 1,
          [](const void* data, uint32_t begin, uint32_t end) {
            auto* t = static_cast<std::atomic<int>*>(const_cast<void*>(data));
            for (uint32_t i = begin; i < end; ++i) ++t[i];
          },
          touched.data());
      for (const auto& t : touched) {
        if (t != 1) return 1;
      }
      return 0;
    });
    CHECK(code == 0);
  }
}
#endif

#if !defined(__SANITIZE_THREAD__)
TEST_CASE("a forked process uses its parent's step, on its one thread") {
  Trainer trainer;
  CHECK(trainer.run_updates());
  CHECK(in_child([&] { return trainer.run_updates() ? 0 : 1; }) == 0);
  CHECK(in_child([&] { return Trainer().run_updates() ? 0 : 1; }) == 0);
  CHECK(trainer.run_updates());
}

TEST_CASE("a process forked in the midst of a thread's own preparation goes on with it") {
  std::optional<ForkWatch> watch(std::in_place);
  int code = in_child([&] {
    watch.reset();
    return Trainer().run_updates() ? 0 : 1;
  });
  CHECK(code == 0);
}

TEST_CASE("in a process without steps" * doctest::skip()) {  // run by the next case
  CHECK(in_child([] { return is_forked() ? 1 : 0; }) == 0);
  CHECK(in_child([] { return Trainer().run_updates() && !is_forked() ? 0 : 1; }) == 0);
  Trainer trainer;
  CHECK(in_child([] { return is_forked() ? 0 : 1; }) == 0);
}

TEST_CASE("workers that a launcher without steps forked may use threads") {
  std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::string command = "'" + self + "' --no-skip -tc='in a process without steps' >&2";
  CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("a process forked while another thread prepares is told so") {
  Trainer trainer;
  std::atomic<bool> inside{false}, done{false};
  std::thread other([&] {
    ForkWatch watch;
    inside = true;
    while (!done) std::this_thread::yield();
  });
  while (!inside) std::this_thread::yield();
  int code = in_child([&] {
    if (!trainer.run_updates()) return 1;  // a prepared step runs
    try {
      Trainer another;
    } catch (const Error& e) {
      return std::string_view(e.what()).find("was forked while") != std::string_view::npos ? 0 : 2;
    }
    return 3;
  });
  done = true;
  other.join();
  CHECK(code == 0);
  CHECK(Trainer().run_updates());
}

TEST_CASE("forks during real preparations never hang") {
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (int i = 0; !done; ++i) {
      Layout layout;
      layout.add({.elements = 8});
      std::string text = "step @s { buffer @w : f32 inout\n %w = load @w : [f32]\n %c = const " +
                         std::to_string(i) + ".5 : f32\n %x = add %w, %c : [f32]\n store @w, %x }";
      Step step(parse(text), layout, Device::cpu());
      step.prepare();
    }
  });
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(7));
    int code = in_child([&] {
      try {
        return Trainer().run_updates() ? 0 : 1;
      } catch (const Error&) {
        return 0;
      }
    });
    CHECK(code == 0);
  }
  done = true;
  other.join();
}
#endif
