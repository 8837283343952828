// Says in words which threads wait where, for hangs.
#pragma once

#include <string>
#include <vector>

#include "tests/ptx_machine/thread.hpp"

namespace stepfuse::ptx {

std::string report_waiting(const Kernel& kernel, const std::vector<const Block*>& blocks);

}  // namespace stepfuse::ptx
