// The readable preimage of a variant's key. Knows the variant.
#pragma once

#include <string>
#include <string_view>

#include "compiler/variant.hpp"

namespace stepfuse {

// The key contains everything that decides a variant's machine code, and no data: two steps with equal
// keys share one kernel. `target` names the backend, its compiler's version and its options.
std::string variant_key(const Variant& variant, std::string_view target);

// Returns the preimage of a cache entry that outlives this build of stepfuse. It contains the kernel's
// text, so that a newer emitter never gets an older one's code.
std::string disk_preimage(std::string_view key, std::string_view kernel_text);

}  // namespace stepfuse
