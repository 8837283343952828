// Inserts the data as JSON into the page that the build embeds.
#include "tools/explore/page.hpp"

#include <string_view>

#include <nlohmann/json.hpp>

namespace stepfuse::explore {

std::string_view page_text();  // page.html

namespace {

using nlohmann::json;

json to_json(const Stage& s) {
  json lines = json::array();
  for (const Line& line : s.lines) {
    if (line.origins.empty()) {
      lines.push_back(line.text);
    } else if (line.cycles == 0) {
      lines.push_back(json::array({line.text, line.origins}));
    } else {
      lines.push_back(json::array({line.text, line.origins, line.cycles}));
    }
  }
  return {{"name", s.name}, {"note", s.note}, {"lines", std::move(lines)}};
}

// The data is inside a script element, so no text in it may end that element.
std::string safe(const json& data) {
  std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace);
  std::string out;
  for (char c : text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string page(const Heading& heading, const Stages& stages, const Facts& facts) {
  json all = json::array(), kernels = json::array();
  for (const Stage& s : stages.all) all.push_back(to_json(s));
  for (const cuda::KernelResources& k : stages.kernels) {
    kernels.push_back({{"name", k.kernel}, {"registers", k.registers}});
  }
  json data = {{"title", heading.title},
               {"version", heading.version},
               {"command", heading.command},
               {"stages", std::move(all)},
               {"kernels", std::move(kernels)},
               {"facts", {{"head", facts.head}, {"rows", facts.rows}, {"notes", facts.notes}}}};
  constexpr std::string_view kPlace = "/*DATA*/null";
  std::string out(page_text());
  out.replace(out.find(kPlace), kPlace.size(), safe(data));
  return out;
}

}  // namespace stepfuse::explore
