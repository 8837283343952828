// The readable preimage of a variant's key. Knows the schedule.
#pragma once

#include <string>
#include <string_view>

#include "compiler/schedule/schedule.hpp"

namespace stepfuse {

// Everything that decides the machine code of a schedule, and nothing that is data: two steps with
// equal keys share one kernel. `target` names the backend, its compiler's version and its options.
std::string variant_key(const Schedule& schedule, std::string_view target);

// The preimage of a cache entry that outlives this build of stepfuse: with the kernel's text, so that
// a newer emitter can never be served an older one's code.
std::string disk_preimage(std::string_view key, std::string_view kernel_text);

}  // namespace stepfuse
