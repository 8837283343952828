// One written form of an opcode: which alternatives of its row's modifiers the text chose.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "tools/ptx_machine/types.hpp"

namespace ptx {

struct Form {
  std::array<std::string_view, 12> chosen;  // one per group of the pattern, "" where left out
  Type type = Type::none;                   // the last type among the modifiers
  Type first = Type::none;                  // the first one (cvt names two)

  bool has(std::string_view modifier) const;
};

// A pattern lists groups in the order of the ISA manual: "rn? f32|f64" takes add.rn.f32 and
// add.f64. A '?' behind a group says that it may be left out. nullopt: the text has another form.
std::optional<Form> match_form(std::string_view pattern, std::string_view modifiers);

}  // namespace ptx
