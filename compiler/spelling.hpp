// How a language of the C family spells ops: rows of text with operands in it. Knows ir's ops and fmt.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

namespace stepfuse {

// In `text`, {a}, {b} and {c} are the operands, {t} is the language's name of their type and {n} the IR's name. {f} is
// "f" and {p} is "f" for floats, "" and "d" for doubles.
struct Spelling {
  Op op;
  std::string_view text;
  std::string_view of_integers = text;  // the same, unless it is given
};

inline std::string spell(std::span<const Spelling> rows, Op op, DType in, std::string_view type,
                         const std::string& a, const std::string& b, const std::string& c) {
  auto row = std::find_if(rows.begin(), rows.end(), [&](const Spelling& s) { return s.op == op; });
  if (row == rows.end()) internal_error(fmt::format("no expression for op {}", info(op).name));
  bool wide = in == DType::f64;
  return fmt::format(fmt::runtime(is_integer(in) ? row->of_integers : row->text), fmt::arg("a", a),
                     fmt::arg("b", b), fmt::arg("c", c), fmt::arg("t", type),
                     fmt::arg("n", name(in)), fmt::arg("f", wide ? "" : "f"),
                     fmt::arg("p", wide ? "d" : "f"));
}

}  // namespace stepfuse
