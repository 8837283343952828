// Suggestions for misspelt names. Knows only std and fmt.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace stepfuse {

// Returns the number of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

// Returns "; did you mean 'adamw' or 'adam'?", or "" if no word is near.
std::string did_you_mean(std::string_view word, std::span<const std::string> known);

}  // namespace stepfuse
