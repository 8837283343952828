// Text in, expected text out: how every pass is tested. Knows ir.
#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "ir/verifier.hpp"

namespace stepfuse::testing {

inline Program parse_body(std::string_view body) {
  return parse("step @t {\n" + std::string(body) + "}\n");
}

// `body` and `expected` are the statements inside the braces, as print() writes them. The pass must
// give `expected`, give it again from itself, and keep the program valid.
template <class PassFunction>
void check_pass(PassFunction pass, std::string_view body, std::string_view expected) {
  Program before = parse_body(body);
  Program after = pass(before);
  CHECK(print(after) == "step @t {\n" + std::string(expected) + "}\n");
  CHECK(find_violations(after).empty());
  CHECK(pass(after) == after);
  CHECK(parse(print(after)) == after);
}

template <class PassFunction>
void check_unchanged(PassFunction pass, std::string_view body) {
  check_pass(pass, body, body);
}

}  // namespace stepfuse::testing
