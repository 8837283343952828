// Runs a function on a thread with a small stack, as threads of other programs have it. Knows pthreads.
#pragma once

#include <cstddef>
#include <exception>
#include <functional>
#include <pthread.h>

#include <doctest/doctest.h>

namespace stepfuse::testing {

// Runs the function on a thread with a small stack, and rethrows its exception.
inline void on_small_stack(const std::function<void()>& function, size_t bytes = size_t{2} << 20) {
  struct Call {
    const std::function<void()>& function;
    std::exception_ptr thrown;
  } call{function, nullptr};
#ifdef __SANITIZE_ADDRESS__
  bytes *= 4;  // instrumented frames are larger
#endif
  pthread_attr_t attributes;
  REQUIRE(pthread_attr_init(&attributes) == 0);
  REQUIRE(pthread_attr_setstacksize(&attributes, bytes) == 0);
  auto run = [](void* argument) -> void* {
    auto& c = *static_cast<Call*>(argument);
    try {
      c.function();
    } catch (...) {
      c.thrown = std::current_exception();
    }
    return nullptr;
  };
  pthread_t thread;
  int failed = pthread_create(&thread, &attributes, run, &call);
  pthread_attr_destroy(&attributes);
  REQUIRE(failed == 0);
  pthread_join(thread, nullptr);
  if (call.thrown) std::rethrow_exception(call.thrown);
}

}  // namespace stepfuse::testing
