// Writes lines to standard error and ignores failures. Knows ir.
#include "runtime/process/say.hpp"

#include <cstdio>

#include "ir/text/printable.hpp"

namespace stepfuse {

void say(const std::string& line) {
  std::string text = printable(line) + '\n';
  std::fputs(text.c_str(), stderr);
}

}  // namespace stepfuse
