// Facts about this machine that a measurement should name. Knows the file system.
#pragma once

#include <string>

namespace stepfuse {

// "AMD EPYC 9354 32-Core Processor", or the architecture if the system does not name its processor.
std::string cpu_name();

}  // namespace stepfuse
