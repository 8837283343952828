// CUDA text and machine code of a schedule for a named GPU. Knows the runtime's way
// from a schedule to machine code.
#include "tools/cli/cuda_code.hpp"

#include <charconv>

#include <fmt/format.h>

namespace stepfuse::cli {

int parse_arch(const std::string& text) {
  std::string_view digits = text;
  for (std::string_view prefix : {"sm_", "compute_"}) {
    if (digits.starts_with(prefix)) digits.remove_prefix(prefix.size());
  }
  int arch = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), arch);
  bool ok = error == std::errc{} && end == digits.data() + digits.size();
  if (!ok || arch < 75 || arch > 999) {
    throw Error(
        ErrorKind::usage,
        fmt::format("--arch {}: write a compute capability from 7.5 on, as in sm_90", text));
  }
  return arch;
}

std::string cuda_text(const Schedule& schedule, int arch) {
  CudaOptions options = cuda::launch_ladder()[0];
  options.arch = arch;
  return emit_cuda(schedule, options);
}

cuda::StepCode compile_cuda(const Schedule& schedule, int arch, cuda::CodeKind kind) {
  return cuda::compile_fresh(schedule, {.kind = kind, .arch = arch});
}

}  // namespace stepfuse::cli
