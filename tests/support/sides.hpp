// The text of a step with squares of a different size. Knows std.
#pragma once

#include <string>
#include <string_view>

namespace stepfuse::testing {

// Replaces each "128x128" of the text.
inline std::string with_side(std::string step, int side) {
  constexpr std::string_view kLarge = "128x128";
  std::string wanted = std::to_string(side) + "x" + std::to_string(side);
  for (size_t at = step.find(kLarge); at != std::string::npos; at = step.find(kLarge, at + 1)) {
    step.replace(at, kLarge.size(), wanted);
  }
  return step;
}

}  // namespace stepfuse::testing
