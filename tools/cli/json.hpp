// JSON on standard output. Knows nlohmann's library.
#pragma once

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace stepfuse::cli {

using Json = nlohmann::ordered_json;

// Replaces bytes that are not UTF-8, as in some file names.
inline void print_json(const Json& value) {
  fmt::print("{}\n", value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace stepfuse::cli
