// Folders of kernels compiled ahead of time, in which a process without LLVM and NVRTC finds what it
// would compile. Knows the variant's key and the disk cache's files.
//
//   folder := a subfolder for each target, with entries like the disk cache's
//   target := a processor level (x86-64-v3), sm_90 (a cubin) or compute_90 (PTX for the driver)
//
// An entry's preimage names structure, dtypes, form, target and the kernel's text, but neither the
// compiler nor the machine that made it; through the text it fits this version of stepfuse only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/variant.hpp"

namespace stepfuse {

// Of the process: use_kernels(), then $STEPFUSE_KERNELS (separated by ':', read once; not where the
// process has other rights than its caller). Throws Error{usage} for one that is not there or that
// another user may write.
std::vector<std::string> kernel_folders();

// The targets that these have kernels for.
std::vector<std::string> shipped_targets();

// `options` are the emitter's, where the caller set any.
std::string shipped_preimage(const Variant& variant, std::string_view target,
                             std::string_view options, std::string_view kernel_text);
std::optional<std::string> find_shipped(const std::string& target, const std::string& preimage);

// Readable by everybody. Throws Error{device} where it cannot be written.
void ship(const std::string& folder, const std::string& target, const std::string& preimage,
          const std::string& kernel);

// For errors about a compiler that is missing: that the folders do not help either; "" without folders.
std::string not_shipped(const Variant& variant, std::string_view target);

}  // namespace stepfuse
