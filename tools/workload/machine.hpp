// What a measurement should name about this machine. Knows the file system.
#pragma once

#include <string>

namespace stepfuse {

// "AMD EPYC 9354 32-Core Processor"; the architecture where the system does not say.
std::string cpu_name();

}  // namespace stepfuse
