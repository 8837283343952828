// How large a kernel's text may be. Knows only ir's errors.
#pragma once

#include <cstddef>
#include <string_view>

namespace stepfuse {

// What the compilers take minutes for, and then tens of gigabytes; the recipes make under 0.3 MB.
inline constexpr size_t kLargestKernelText = 4'000'000;

// Throws Error{bind}, which is no failure of a compiler; `language`: "LLVM IR" or "CUDA text".
void check_kernel_size(std::string_view text, std::string_view language);

}  // namespace stepfuse
