// Expected texts kept in files. Knows the file system.
//
// STEPFUSE_UPDATE_GOLDEN=1 writes the files instead of comparing; review the difference like code.
#pragma once

#include <string>
#include <string_view>

namespace stepfuse::testing {

// Checks (a doctest check) that `actual` is what tests/golden/expected/<path> holds.
void check_golden(std::string_view path, const std::string& actual);

// What differs, as "-expected" and "+actual" lines with some around them; "" if nothing.
std::string line_difference(std::string_view expected, std::string_view actual);

}  // namespace stepfuse::testing
