// The optimizers that come with the library: one file each in ir/optimizers/. Knows ir only.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/formula/ast.hpp"

namespace stepfuse::formula {

struct Embedded {
  std::string_view name;  // name of the file, and of its optimizer or format
  std::string_view text;
};
std::span<const Embedded> embedded_formulas();
// The storage formats of moments: one file each in ir/formats/.
std::span<const Embedded> embedded_formats();
// The formats of weights with more bits than the model computes with: ir/formats/masters/.
std::span<const Embedded> embedded_masters();
// The formats of copies that the model computes with: ir/formats/copies/.
std::span<const Embedded> embedded_copies();

// Returns the formula that `optimizer NAME = BASE` refers to as BASE.
std::optional<Formula> parse_built_in(std::string_view name);

// Returns all built-in formulas; they are parsed at the first call.
std::span<const std::shared_ptr<const Formula>> built_in_formulas();

}  // namespace stepfuse::formula
