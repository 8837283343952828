// What an error says, and whether a text has a part.
#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>

namespace stepfuse::testing {

// The message of the Error that `f` throws; "no error" if there is none.
std::string message_of(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// The same of an error that must be of this kind.
std::string message_of(ErrorKind kind, auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  return "no error";
}

// For CHECK: shows the text where the part is missing.
inline bool has(std::string_view text, std::string_view part) {
  if (text.find(part) != text.npos) return true;
  MESSAGE(std::string(text));
  return false;
}

}  // namespace stepfuse::testing
