// Parses IR text. Knows ir only.
#pragma once

#include <string_view>
#include <vector>

#include <stepfuse/program.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// Parses one step; the grammar is in ir/README.md. Throws Error{parse} with file:line:col and a caret.
// Checks only syntax and names; verify() checks the rest.
Program parse_unverified(std::string_view text, std::string_view file = "<text>");

// Parses and verifies one step. Errors of either kind have file:line:col and a caret. The step gets
// `tables` in front of its own.
Program parse(std::string_view text, std::string_view file = "<text>",
              const std::vector<Table>& tables = {});

}  // namespace stepfuse
#pragma GCC visibility pop
