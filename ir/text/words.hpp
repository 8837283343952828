// Reads and counts numbers and splits lists. Knows only std.
#pragma once

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace stepfuse {

// Returns the number if the whole text is one that T can hold.
template <class T>
std::optional<T> parse_number(std::string_view text, [[maybe_unused]] int base = 10) {
  T value{};
  const char* end = text.data() + text.size();
  std::from_chars_result read{};
  if constexpr (std::is_floating_point_v<T>) {
    read = std::from_chars(text.data(), end, value);
  } else {
    read = std::from_chars(text.data(), end, value, base);
  }
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

// Returns "1 tensor" or "3 tensors".
template <class N>
std::string count_words(N count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

// Returns what an index may be: "1 group (0)" or "3 groups (0 to 2)".
template <class N>
std::string index_words(N count, std::string_view noun) {
  std::string to = count > 1 ? " to " + std::to_string(count - 1) : "";
  return count_words(count, noun) + (count > 0 ? " (0" + to + ")" : "");
}

// Returns the items between the separators. A separator ends an item, so none follows the last one.
inline std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> items;
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of(separators), text.size());
    items.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return items;
}

}  // namespace stepfuse
