// Messages of errors, and a search in them.
#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>

namespace stepfuse::testing {

// The message of the Error that `f` throws, or "no error".
std::string message_of(auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// The same for an error that must have this kind.
std::string message_of(ErrorKind kind, auto&& f) {
  try {
    f();
  } catch (const Error& e) {
    CHECK(e.kind() == kind);
    return e.what();
  }
  return "no error";
}

// For CHECK: shows the text if the part is missing.
inline bool has(std::string_view text, std::string_view part) {
  if (text.find(part) != text.npos) return true;
  MESSAGE(std::string(text));
  return false;
}

}  // namespace stepfuse::testing
