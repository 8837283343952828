// Expected texts kept in files. Knows the file system.
//
// STEPFUSE_UPDATE_FILETESTS=1 writes the files instead of comparing; review the difference like code.
#pragma once

#include <string>
#include <string_view>

namespace stepfuse::testing {

// Checks (a doctest check) that `actual` is what the file holds; `path` is relative to tests/.
void check_expected(std::string_view path, const std::string& actual);

// The difference as "-expected" and "+actual" lines with some context; "" if the texts are equal.
std::string line_difference(std::string_view expected, std::string_view actual);

}  // namespace stepfuse::testing
