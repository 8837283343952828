// Parses JSON from untrusted files, with memory in proportion to the text. Knows nlohmann-json.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace stepfuse {

constexpr int kMaxJsonDepth = 16;  // no file of ours nests deeper than five

struct JsonTooDeep : std::runtime_error {
  JsonTooDeep()
      : std::runtime_error("arrays and objects in one another, more than " +
                           std::to_string(kMaxJsonDepth) + " deep") {}
};

// A bracket becomes a value of a hundred bytes. Therefore brackets that nest too deeply are refused during
// parsing. Throws JsonTooDeep, or what nlohmann::json::parse throws.
inline nlohmann::json parse_json(std::string_view text) {
  using Event = nlohmann::json::parse_event_t;
  return nlohmann::json::parse(
      text.begin(), text.end(), [](int depth, Event event, const nlohmann::json&) {
        bool opens = event == Event::array_start || event == Event::object_start;
        if (opens && depth >= kMaxJsonDepth) throw JsonTooDeep();
        return true;
      });
}

}  // namespace stepfuse
