// Sets the floating-point mode that the numerics contract needs, and restores the caller's: an embedding
// program may have set flush-to-zero or a different rounding mode. Knows only std.
#pragma once

#include <cfenv>
#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace stepfuse {

// Sets round to nearest even, keeps subnormals, and masks exceptions, per thread.
class FpEnvGuard {
 public:
#if defined(__x86_64__)
  FpEnvGuard() noexcept : saved_(_mm_getcsr()) {
    if (saved_ != kDefault) _mm_setcsr(kDefault);
  }
  ~FpEnvGuard() { _mm_setcsr(saved_); }
#elif defined(__aarch64__)
  FpEnvGuard() noexcept {
    asm volatile("mrs %0, fpcr" : "=r"(saved_));
    uint64_t zero = kDefault;
    asm volatile("msr fpcr, %0" : : "r"(zero));
  }
  ~FpEnvGuard() { asm volatile("msr fpcr, %0" : : "r"(saved_)); }
#else
#error "stepfuse supports x86-64 and AArch64"
#endif
  FpEnvGuard(const FpEnvGuard&) = delete;
  FpEnvGuard& operator=(const FpEnvGuard&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned kDefault = 0x1f80;
  unsigned saved_;
#else
  static constexpr uint64_t kDefault = 0;
  uint64_t saved_ = 0;
#endif
};

}  // namespace stepfuse
