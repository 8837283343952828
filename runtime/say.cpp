// Lines on standard error that may get lost. Knows ir.
#include "runtime/say.hpp"

#include <cstdio>

#include "ir/printable.hpp"

namespace stepfuse {

void say(const std::string& line) {
  std::string text = printable(line) + '\n';
  std::fputs(text.c_str(), stderr);
}

}  // namespace stepfuse
