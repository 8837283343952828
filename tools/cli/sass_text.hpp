// `stepfuse explain --sass`: what the machine code of a step's streaming loops costs, and what that
// predicts. Knows the report only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/sass/report.hpp"

namespace stepfuse::cli {

// Tables of all archs; `elements`: of each signature, whose times are predicted.
std::string sass_text(const Variant& variant, const std::vector<sass::Report>& reports,
                      const std::vector<uint64_t>& elements);

}  // namespace stepfuse::cli
