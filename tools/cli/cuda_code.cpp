// Adds and reads --form, --arch, --cuda-options and --cpu-level. Knows CLI11 and fmt.
#include "tools/cli/cuda_code.hpp"

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/words.hpp"
#include "tools/cli/source.hpp"

namespace stepfuse::cli {

int parse_arch(const std::string& text) {
  std::string_view digits = text;
  for (std::string_view prefix : {"sm_", "compute_"}) {
    if (digits.starts_with(prefix)) digits.remove_prefix(prefix.size());
  }
  int arch = parse_number<int>(digits).value_or(0);
  if (arch < 75 || arch > 999) {
    throw Error(
        ErrorKind::usage,
        fmt::format("--arch {}: write a compute capability from 7.5 on, as in sm_90", text));
  }
  return arch;
}

void add_kernel_words(CLI::App& verb, KernelWords& words) {
  add_form(verb, words.form);
  verb.add_option("--arch", words.arch, "GPU architecture to compile CUDA for [sm_90]")
      ->type_name("sm_NN");
  add_cuda_options(verb, words.cuda_options);
  verb.add_option("--cpu-level", words.cpu_level, "Processor level to compile LLVM IR for [host]")
      ->type_name("host|x86-64|x86-64-v3|x86-64-v4");
}

void add_cuda_options(CLI::App& verb, std::string& options) {
  verb.add_option("--cuda-options", options,
                  "Tuning of CUDA kernels; results are bit-identical: "
                  "min-blocks=1|2|3|4, unroll=1|2, cache=normal|streaming|evict-first, "
                  "access=128|256, reverse=on|off [chosen]")
      ->type_name("NAME=VALUE,…");
}

}  // namespace stepfuse::cli
