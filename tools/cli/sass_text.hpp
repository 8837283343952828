// `stepfuse explain --sass`: the cost of a step's streaming loops in machine code, and the times
// predicted from it. Knows the report only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/sass/report.hpp"

namespace stepfuse::cli {

// Tables for all archs. `elements` per signature are the sizes for which times are predicted.
std::string sass_text(const Variant& variant, const std::vector<sass::Report>& reports,
                      const std::vector<uint64_t>& elements);

}  // namespace stepfuse::cli
