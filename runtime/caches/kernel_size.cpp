// Refuses kernels that are too large to compile. Knows fmt and ir's errors.
#include "runtime/caches/kernel_size.hpp"

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse {

void check_kernel_size(std::string_view text, std::string_view language) {
  if (text.size() <= kLargestKernelText) return;
  throw Error(ErrorKind::bind,
              fmt::format("the step's kernel is {:.1f} MB of {}; more than {} MB are not compiled, "
                          "because that would take minutes: write it with fewer instructions or "
                          "storage types, cut it into several steps, or "
                          "interpret it (Device::interpreter(), --backend=interpret)",
                          static_cast<double>(text.size()) / 1e6, language,
                          kLargestKernelText / 1'000'000));
}

}  // namespace stepfuse
