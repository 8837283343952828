// Names in generated text. Whatever names a step has, no two of them become the same, and none becomes a
// word of the language or of a prelude. Knows only std.
//
// Every name has a prefix of a letter for its kind and '_' (e_ for an element value, b_ for a buffer). No
// keyword and no name of ours looks like this.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace stepfuse {

// Makes `text` a part of an identifier: characters other than letters and digits become '_', and a name
// that is too long for some compiler is cut.
std::string identifier(std::string_view text);

// The names given within one scope.
class UniqueNames {
 public:
  explicit UniqueNames(std::string_view separator = "_") : separator_(separator) {}
  // Returns `base`, or if that is taken, the first free one of base_2, base_3, ….
  std::string unique(std::string base);

 private:
  std::string separator_;
  std::map<std::string, int, std::less<>> last_;  // every name given -> its last number
};

}  // namespace stepfuse
