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
  std::string_view name;  // of the file and of its optimizer or format
  std::string_view text;
};
std::span<const Embedded> embedded_formulas();
// The storage formats: one file each in ir/formats/.
std::span<const Embedded> embedded_formats();
// Those of weights with more bits than the model computes with: ir/formats/masters/.
std::span<const Embedded> embedded_masters();
// Those of copies that the model computes with: ir/formats/copies/.
std::span<const Embedded> embedded_copies();

// What `optimizer NAME = BASE` finds.
std::optional<Formula> parse_built_in(std::string_view name);

// All of them, parsed when first asked for.
std::span<const std::shared_ptr<const Formula>> built_in_formulas();

}  // namespace stepfuse::formula
