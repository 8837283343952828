// Says in words which threads wait where, for hangs.
#pragma once

#include <string>
#include <vector>

#include "tools/ptx_machine/thread.hpp"

namespace ptx {

std::string report_waiting(const Kernel& kernel, const std::vector<const Block*>& blocks);

}  // namespace ptx
