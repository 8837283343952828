// Defines the functions that g++ 12 and the archives of LLVM call and glibc 2.28 lacks; tools/glibc_stubs.sh links it.
// Knows glibc.
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#pragma GCC visibility push(hidden)

// libstdc++ counts references without atomics where this is true.
char __libc_single_threaded = 0;

// std::random_device
uint32_t arc4random(void) {
  uint32_t value;
  if (getentropy(&value, sizeof value) != 0) abort();
  return value;
}

// LLVM's statistics
struct mallinfo2 mallinfo2(void) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  struct mallinfo info = mallinfo();
#pragma GCC diagnostic pop
  return (struct mallinfo2){.arena = (unsigned)info.arena,
                            .uordblks = (unsigned)info.uordblks,
                            .hblkhd = (unsigned)info.hblkhd};
}

// std::condition_variable::wait_for(): the deadline on the clock that pthread_cond_timedwait() has. A caller that waits
// again after a wake-up before the deadline, as std::condition_variable does, is not hurt by a change of the wall
// clock.
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const struct timespec* deadline) {
  struct timespec now, wall;
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &wall) != 0)
    return 22;  // EINVAL
  wall.tv_sec += deadline->tv_sec - now.tv_sec;
  wall.tv_nsec += deadline->tv_nsec - now.tv_nsec;
  if (wall.tv_nsec < 0) wall.tv_nsec += 1000000000, --wall.tv_sec;
  if (wall.tv_nsec >= 1000000000) wall.tv_nsec -= 1000000000, ++wall.tv_sec;
  return pthread_cond_timedwait(condition, mutex, &wall);
}
