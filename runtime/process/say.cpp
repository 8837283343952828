// Lines on standard error that may get lost. Knows ir.
#include "runtime/process/say.hpp"

#include <cstdio>

#include "ir/text/printable.hpp"

namespace stepfuse {

void say(const std::string& line) {
  std::string text = printable(line) + '\n';
  std::fputs(text.c_str(), stderr);
}

}  // namespace stepfuse
