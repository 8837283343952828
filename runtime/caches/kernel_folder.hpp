// Folders of kernels compiled ahead of time, for processes without LLVM or NVRTC. Knows the variant's key
// and the disk cache's files.
//
//   folder := a subfolder per target, with entries in the disk cache's format
//   target := a processor level (x86-64-v3), sm_90 (a cubin) or compute_90 (PTX for the driver)
//
// An entry's preimage names structure, dtypes, form, target and the kernel's text. It names neither the
// compiler nor the machine that made the kernel. Because of the text it fits one version of stepfuse.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/variant.hpp"

namespace stepfuse {

// Returns this process's folders: those of use_kernels(), then those of $STEPFUSE_KERNELS (separated by
// ':', read once, ignored if the process has other rights than its caller). Throws Error{usage} if a
// folder does not exist or if another user may write it.
std::vector<std::string> kernel_folders();

// Returns the targets for which these folders have kernels.
std::vector<std::string> shipped_targets();

// `options` are the emitter's options, if the caller set any.
std::string shipped_preimage(const Variant& variant, std::string_view target,
                             std::string_view options, std::string_view kernel_text);
std::optional<std::string> find_shipped(const std::string& target, const std::string& preimage);

// Writes an entry that everybody can read. Throws Error{usage} if it cannot be written.
void ship(const std::string& folder, const std::string& target, const std::string& preimage,
          const std::string& kernel);

// Returns the part of a missing compiler's error that says why the folders do not help; "" without
// folders.
std::string not_shipped(const Variant& variant, std::string_view target);

}  // namespace stepfuse
