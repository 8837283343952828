// Suggestions for misspelt names. Knows only std and fmt.
#include "ir/text/near_names.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stepfuse {

int edit_distance(std::string_view a, std::string_view b) {
  // Keep three rows of the classic table, because a swap looks two rows back.
  std::vector<std::vector<int>> rows(3, std::vector<int>(b.size() + 1));
  for (size_t j = 0; j <= b.size(); ++j) rows[0][j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    std::vector<int>& row = rows[i % 3];
    const std::vector<int>& above = rows[(i + 2) % 3];
    const std::vector<int>& above2 = rows[(i + 1) % 3];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      int replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replace, above[j] + 1, row[j - 1] + 1});
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], above2[j - 2] + 1);
    }
  }
  return rows[a.size() % 3][b.size()];
}

std::string did_you_mean(std::string_view word, std::span<const std::string> known) {
  if (word.size() > 80) return "";  // too long to be a misspelling
  int limit = std::max(1, static_cast<int>(word.size()) / 3);
  std::vector<std::pair<int, std::string>> near;
  for (const std::string& name : known) {
    int distance = edit_distance(word, name);
    bool cut_short = word.size() >= 3 && name.starts_with(word);
    if (distance <= limit || cut_short) near.emplace_back(distance, fmt::format("'{}'", name));
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < near.size() && i < 3; ++i) names.push_back(near[i].second);
  if (names.empty()) return "";
  return fmt::format("; did you mean {}?", fmt::join(names, " or "));
}

}  // namespace stepfuse
