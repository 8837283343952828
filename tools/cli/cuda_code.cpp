// CUDA text and machine code of a schedule for a named GPU. Knows the emitter and NVRTC's front.
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

CudaOptions cuda_options(int arch) { return {.arch = arch}; }

cuda::CompiledCode compile_cuda(const Schedule& schedule, int arch, cuda::CodeKind kind) {
  std::string text = emit_cuda(schedule, cuda_options(arch));
  return cuda::nvrtc_compile(
      {.text = text, .name = schedule.program.name, .arch = arch, .kind = kind});
}

}  // namespace stepfuse::cli
