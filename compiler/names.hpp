// Names in generated text: whatever a step calls its things, no two of them meet there, and none is
// a word of the language or of a prelude. Knows only std.
//
// Every name stands behind the letter of its kind and '_' (e_ of an element value, b_ of a buffer),
// which is the form of no keyword and no name of ours.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace stepfuse {

// `text` as a part of an identifier: other characters than letters and digits become '_', and what
// is too long for some compiler is cut.
std::string identifier(std::string_view text);

// The names given within one scope.
class UniqueNames {
 public:
  explicit UniqueNames(std::string_view separator = "_") : separator_(separator) {}
  // `base`, or where that is taken, the first free one of base_2, base_3, ….
  std::string unique(std::string base);

 private:
  std::string separator_;
  std::map<std::string, int, std::less<>> last_;  // every name given -> its last number
};

}  // namespace stepfuse
