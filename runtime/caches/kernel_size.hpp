// The limit on the size of a kernel's text. Knows only ir's errors.
#pragma once

#include <cstddef>
#include <string_view>

namespace stepfuse {

// Beyond this size compilers take minutes and tens of gigabytes. The recipes make less than 0.3 MB.
inline constexpr size_t kLargestKernelText = 4'000'000;

// Throws Error{bind}, because the compiler has not failed. `language` is "LLVM IR" or "CUDA text".
void check_kernel_size(std::string_view text, std::string_view language);

}  // namespace stepfuse
