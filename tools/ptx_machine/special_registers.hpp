// The names of the special registers; knows nothing of their values.
#pragma once

#include <optional>
#include <string_view>

#include "tools/ptx_machine/instruction.hpp"

namespace ptx {

struct SpecialName {
  std::string_view name;
  Special special;
  Type type;
};

std::optional<SpecialName> special_named(std::string_view name);
bool is_clock(std::string_view name);  // changes while the thread runs

}  // namespace ptx
