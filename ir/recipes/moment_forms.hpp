// What option --moments says, taken apart. Knows ir only.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace stepfuse::recipes {

// "exp_avg=int8|exp_avg_sq=sqrt8" as pairs of a moment and its form; the moment is empty where all
// are meant.
inline std::vector<std::pair<std::string_view, std::string_view>> moment_forms(
    std::string_view text) {
  std::vector<std::pair<std::string_view, std::string_view>> forms;
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of("|,"), text.size());
    std::string_view choice = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    size_t equals = choice.find('=');
    bool all = equals == std::string_view::npos;
    forms.emplace_back(all ? "" : choice.substr(0, equals),
                       all ? choice : choice.substr(equals + 1));
  }
  return forms;
}

}  // namespace stepfuse::recipes
