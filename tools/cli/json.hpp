// Data as JSON, on standard output. Knows nlohmann's library.
#pragma once

#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace stepfuse::cli {

using Json = nlohmann::ordered_json;

// Replaces bytes that are not UTF-8, as in some file names.
inline std::string json_text(const Json& value) {
  return value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

inline void print_json(const Json& value) { fmt::print("{}", json_text(value)); }

}  // namespace stepfuse::cli
