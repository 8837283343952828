// The exception type for the user's mistakes, and the assertion for ours. Knows only std.
#pragma once

#if __cplusplus < 202002L
#error "stepfuse needs C++20: compile with -std=c++20"
#endif

#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace stepfuse {

enum class ErrorKind { parse, verify, bind, compile, device, usage };
std::string_view name(ErrorKind kind);

// A position in IR text. Line 0 means that there is no text, as in a program made with the builder.
struct SourceLoc {
  int line = 0;
  int column = 0;
};

// Thrown for every mistake that the user can mend; what() says how. Nothing has changed when it is thrown:
// no buffer, state or table is half written.
class Error : public std::runtime_error {
 public:
  // Control characters in the message become '?', because names come from files.
  Error(ErrorKind kind, std::string_view message, SourceLoc loc = {});
  ErrorKind kind() const noexcept { return kind_; }
  SourceLoc loc() const noexcept { return loc_; }

 private:
  ErrorKind kind_;
  SourceLoc loc_;
};

// Renders "file:3:7: error: message", the source line, and a caret under the column.
std::string render_at(std::string_view file, std::string_view text, SourceLoc loc,
                      std::string_view message);

// Reports a broken invariant of stepfuse itself. Throws std::logic_error with file and line.
[[noreturn]] void internal_error(std::string_view message,
                                 std::source_location where = std::source_location::current());
inline void check_internal(bool ok, std::string_view message,
                           std::source_location where = std::source_location::current()) {
  if (!ok) internal_error(message, where);
}

}  // namespace stepfuse
#pragma GCC visibility pop
