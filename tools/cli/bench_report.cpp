// `stepfuse bench` as a table, as JSON and as a picture. Knows the measurement.
#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ir/text/printable.hpp"
#include "tools/cli/bench_run.hpp"
#include "tools/cli/json.hpp"
#include "tools/cli/table.hpp"

namespace stepfuse::cli {
namespace {

double gigabytes_per_second(const BenchRow& row, double parameters) {
  return row.bytes_per_parameter * parameters / row.median() / 1e9;
}

std::string milliseconds(double seconds) { return fmt::format("{:.4g}", seconds * 1e3); }

std::string label_of(const BenchRow& row) {
  return fmt::format("{}, {} thread{}", row.name, row.threads, row.threads == 1 ? "" : "s");
}

// The text with XML's signs replaced by their names.
std::string xml_text(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string bench_text(const BenchReport& r) {
  auto n = static_cast<double>(r.parameters);
  std::string text =
      fmt::format("{}\n{} parameters in {} tensor{} (layout {})\n{}, {} rounds in turns\n\n",
                  r.title, with_commas(r.parameters), with_commas(r.tensors),
                  r.tensors == 1 ? "" : "s", printable(r.layout), r.cpu, r.rounds);
  Table table;
  table.row({"", "median ms", "least ms", "B/parameter", "GB/s", "of floor", "of roof", "x fused"});
  for (const BenchRow& row : r.rows) {
    bool counted = row.bytes_per_parameter > 0;
    table.row({label_of(row), milliseconds(row.median()), milliseconds(row.least()),
               counted ? short_number(row.bytes_per_parameter) : "",
               counted ? fmt::format("{:.1f}", gigabytes_per_second(row, n)) : "",
               fmt::format("{:.2f}", r.floor_seconds(row.threads) / row.median()),
               counted ? fmt::format("{:.2f}", r.roof_seconds(row) / row.median()) : "",
               fmt::format("{:.2f}", row.median() / r.fused(row.threads).median())});
  }
  for (const BenchRow& row : r.streams) {
    table.row({label_of(row), milliseconds(row.median()), milliseconds(row.least()),
               short_number(row.bytes_per_parameter),
               fmt::format("{:.1f}", gigabytes_per_second(row, n)), "", "", ""});
  }
  return text + table.text();
}

std::string bench_json(const BenchReport& r) {
  Json j = {{"step", r.title},      {"layout", r.layout}, {"parameters", r.parameters},
            {"tensors", r.tensors}, {"cpu", r.cpu},       {"rounds", r.rounds}};
  auto rows = [&](const std::vector<BenchRow>& all, bool steps) {
    Json out = Json::array();
    for (const BenchRow& row : all) {
      Json o = {{"name", row.name}, {"threads", row.threads}, {"median_s", row.median()}};
      if (row.bytes_per_parameter > 0) o["bytes_per_parameter"] = row.bytes_per_parameter;
      if (steps) o["of_floor"] = r.floor_seconds(row.threads) / row.median();
      if (steps && row.bytes_per_parameter > 0) {
        o["bytes_of_reading"] = row.bytes_of_reading;
        o["of_roof"] = r.roof_seconds(row) / row.median();
      }
      if (steps) o["times_fused"] = row.median() / r.fused(row.threads).median();
      o["seconds"] = row.seconds;
      out.push_back(o);
    }
    return out;
  };
  j["rows"] = rows(r.rows, true);
  j["streams"] = rows(r.streams, false);
  return json_text(j);
}

// Bars of milliseconds; the dashed line is the floor.
std::string bench_picture(const BenchReport& r) {
  constexpr int kLeft = 250, kWidth = 560, kBar = 22, kTop = 64;
  double most = 0;
  for (const BenchRow& row : r.rows) most = std::max(most, row.median());
  int height = kTop + static_cast<int>(r.rows.size()) * kBar + 40;
  auto x = [&](double seconds) { return kLeft + kWidth * seconds / most; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
      "<text x=\"16\" y=\"24\" font-size=\"15\">{}: one step over {} parameters</text>\n"
      "<text x=\"16\" y=\"44\" fill=\"#555\">{}; shorter is better, dashed: the floor, {:.0f} "
      "bytes per parameter at the memory's speed</text>\n",
      kLeft + kWidth + 110, height, xml_text(r.title), with_commas(r.parameters), xml_text(r.cpu),
      r.rows[0].bytes_per_parameter);
  int y = kTop;
  for (const BenchRow& row : r.rows) {
    const char* colour = row.bytes_per_parameter == 0 ? "#c8553d"
                         : row.name == "fused"        ? "#0b6e4f"
                                                      : "#8d99ae";
    double floor = r.floor_seconds(row.threads);
    svg += fmt::format(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n"
        "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\" fill=\"{}\"/>\n"
        "<text x=\"{:.1f}\" y=\"{}\">{} ms</text>\n"
        "<line x1=\"{:.1f}\" y1=\"{}\" x2=\"{:.1f}\" y2=\"{}\" stroke=\"#222\" "
        "stroke-dasharray=\"3\"/>\n",
        kLeft - 8, y + 15, xml_text(label_of(row)), kLeft, y, x(row.median()) - kLeft, kBar - 5,
        colour, x(row.median()) + 6, y + 15, milliseconds(row.median()), x(floor), y - 2, x(floor),
        y + kBar - 3);
    y += kBar;
  }
  return svg + "</svg>\n";
}

}  // namespace stepfuse::cli
