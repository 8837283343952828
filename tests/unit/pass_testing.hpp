// Steps of a few statements, for tests of passes on values. Knows ir.
#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

namespace stepfuse::testing {

inline Program parse_body(std::string_view body) {
  return parse("step @t {\n" + std::string(body) + "}\n");
}

}  // namespace stepfuse::testing
