// What option --moments says, taken apart. Knows ir only.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "ir/text/words.hpp"

namespace stepfuse::recipes {

// "exp_avg=int8|exp_avg_sq=sqrt8" as pairs of a moment and its form; the moment is empty where all
// are meant.
inline std::vector<std::pair<std::string_view, std::string_view>> moment_forms(
    std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> forms;
  for (std::string_view choice : split(text, "|,")) {
    size_t equals = choice.find('=');
    bool all = equals == std::string_view::npos;
    forms.emplace_back(all ? "" : choice.substr(0, equals),
                       all ? choice : choice.substr(equals + 1));
  }
  return forms;
}

}  // namespace stepfuse::recipes
