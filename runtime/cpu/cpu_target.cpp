// Processors: the host's, and the levels for tests and portable builds. Knows LLVM's feature names.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cpu/llvm_library.hpp"

namespace stepfuse {
namespace {

bool has(const CpuTarget& t, std::string_view feature) {
  return fmt::format(",{},", t.features).find(fmt::format(",+{},", feature)) != std::string::npos;
}

// All features that the emitter asks about are spelled out, so that it need not know what a level
// implies.
constexpr std::string_view kV3 =
    "+avx,+avx2,+bmi,+bmi2,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3,"
    "+xsave";
constexpr std::string_view kV4 = "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl";
// Every AArch64 processor has these.
[[maybe_unused]] constexpr std::string_view kArmV8 = "+fp-armv8,+neon";

}  // namespace

CpuTarget host_cpu_target() {
#if STEPFUSE_HAVE_LLVM
  const LlvmLibrary& l = llvm_library();
  auto take = [&](char* text) {
    std::string s = text;
    l.LLVMDisposeMessage(text);
    return s;
  };
  CpuTarget t;
  t.cpu = take(l.LLVMGetHostCPUName());
  t.features = take(l.LLVMGetHostCPUFeatures());
  bool avx512 = has(t, "avx512f") && has(t, "avx512bw") && has(t, "avx512dq") && has(t, "avx512vl");
  t.vector_bits = avx512 ? 512 : has(t, "avx2") ? 256 : 128;
#if defined(__aarch64__)
  // The kernel may not say so, for instance in an emulator.
  if (!has(t, "neon"))
    t.features = fmt::format("{}{}{}", t.features, t.features.empty() ? "" : ",", kArmV8);
#endif
  return t;
#else
  throw Error(ErrorKind::device, llvm_status().problem);
#endif
}

CpuTarget cpu_target(std::string_view level) {
  if (level == "host") return host_cpu_target();
#if defined(__x86_64__)
  if (level == "x86-64") return {.cpu = "x86-64", .features = "+sse2", .vector_bits = 128};
  if (level == "x86-64-v3") {
    return {.cpu = "x86-64-v3", .features = std::string(kV3), .vector_bits = 256};
  }
  if (level == "x86-64-v4") {
    return {.cpu = "x86-64-v4", .features = fmt::format("{},{}", kV3, kV4), .vector_bits = 512};
  }
#elif defined(__aarch64__)
  if (level == "armv8-a") {
    return {.cpu = "generic", .features = std::string(kArmV8), .vector_bits = 128};
  }
#endif
  throw Error(ErrorKind::usage,
              fmt::format("unknown processor level '{}': expected host, on x86-64 also x86-64, "
                          "x86-64-v3 or x86-64-v4, and on AArch64 also armv8-a",
                          level));
}

std::vector<std::string> runnable_cpu_levels() {
  std::vector<std::string> levels = {"host"};
#if defined(__x86_64__)
  levels.emplace_back("x86-64");
  if (__builtin_cpu_supports("x86-64-v3") != 0) levels.emplace_back("x86-64-v3");
  if (__builtin_cpu_supports("x86-64-v4") != 0) levels.emplace_back("x86-64-v4");
#elif defined(__aarch64__)
  levels.emplace_back("armv8-a");
#endif
  return levels;
}

void require_runnable(std::string_view level) {
  std::vector<std::string> levels = runnable_cpu_levels();
  if (std::find(levels.begin(), levels.end(), level) != levels.end()) return;
  cpu_target(level);  // throws if no processor has this level
  throw Error(ErrorKind::device, fmt::format("this processor cannot run level '{}'; it runs {}",
                                             level, fmt::join(levels, ", ")));
}

}  // namespace stepfuse
