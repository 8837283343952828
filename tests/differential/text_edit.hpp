// Edits of emitted text: how faults are planted in what an emitter wrote. Knows only std.
#pragma once

#include <functional>
#include <regex>
#include <string>

namespace stepfuse::testing {

using TextEdit = std::function<std::string(std::string)>;

// Replaces in every line that contains `mark`; $1 … in `with` are the groups of `pattern`.
TextEdit replace_in_lines(std::string mark, const std::string& pattern, std::string with);

// Replaces every occurrence of a piece of text.
TextEdit replace_text(std::string what, std::string with);

// `edit` in what stands between the first `begin` and the `end` after it only, for every `begin`.
TextEdit within(std::string begin, std::string end, TextEdit edit);

TextEdit both(TextEdit first, TextEdit second);

}  // namespace stepfuse::testing
