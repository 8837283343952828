// Facts about this machine that a measurement should name. Knows the file system.
#include "tools/workload/machine.hpp"

#include <fstream>
#include <sys/utsname.h>

namespace stepfuse {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  // AArch64's cpuinfo has numbers only.
  utsname system{};
  return uname(&system) == 0 ? system.machine : "unknown";
}

}  // namespace stepfuse
