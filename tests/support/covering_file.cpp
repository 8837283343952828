// The text of a covering set: its factors, its counts, and a line with one character per value.
#include "tests/support/covering_file.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tests/source_dir.hpp"
#include "tests/support/long_run.hpp"

namespace stepfuse::testing {
namespace {

constexpr std::string_view kDigits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

// The factors and the seed of the set. A different head means a different set.
std::string head(const std::vector<Factor>& factors, uint64_t seed) {
  std::string out = "# Rows in which every two values of two factors stand together.\n";
  out += fmt::format("seed {}\n", seed);
  for (const Factor& f : factors) {
    out += fmt::format("factor {}: {}\n", f.name, fmt::join(f.values, ", "));
  }
  return out;
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

bool is_updating() { return std::getenv("STEPFUSE_UPDATE_COVERING") != nullptr; }

}  // namespace

std::string covering_text(const CoveringSet& set, const std::vector<Factor>& factors,
                          uint64_t seed) {
  std::string out = head(factors, seed);
  out += fmt::format("pairs {}\nusual {}\n", set.covered, set.usual);
  for (const Row& row : set.rows) {
    for (int value : row) out += kDigits.at(static_cast<size_t>(value));
    out += '\n';
  }
  return out;
}

std::optional<CoveringSet> covering_from(std::string_view text, const std::vector<Factor>& factors,
                                         uint64_t seed) {
  std::string expected = head(factors, seed);
  if (!text.starts_with(expected)) return std::nullopt;
  std::istringstream in(std::string(text.substr(expected.size())));
  CoveringSet set;
  std::string pairs, usual;
  if (!(in >> pairs >> set.covered >> usual >> set.usual)) return std::nullopt;
  if (pairs != "pairs" || usual != "usual") return std::nullopt;
  for (std::string line; in >> line;) {
    if (line.size() != factors.size()) return std::nullopt;
    Row row;
    for (size_t f = 0; f < line.size(); ++f) {
      size_t value = kDigits.find(line[f]);
      if (value >= factors[f].values.size()) return std::nullopt;
      row.push_back(static_cast<int>(value));
    }
    set.rows.push_back(std::move(row));
  }
  if (set.usual > set.rows.size()) return std::nullopt;
  return set;
}

CoveringSet kept_covering_set(const std::string& name, const std::vector<Factor>& factors,
                              const std::function<bool(const Row&)>& valid, uint64_t seed) {
  std::string path = fmt::format("{}/tests/data/{}.covering", STEPFUSE_SOURCE_DIR, name);
  std::optional<CoveringSet> kept = covering_from(read_file(path), factors, seed);
  if (kept && !is_long_run() && !is_updating()) return *kept;
  CoveringSet computed = pairwise_covering_set(factors, valid, seed);
  if (is_updating()) {
    std::ofstream(path) << covering_text(computed, factors, seed);
  } else if (is_long_run()) {
    bool same =
        kept && covering_text(*kept, factors, seed) == covering_text(computed, factors, seed);
    CHECK_MESSAGE(same, path, " is not the set of today; STEPFUSE_UPDATE_COVERING=1 writes it");
  } else {
    MESSAGE(path,
            " has different factors, so the set is computed; STEPFUSE_UPDATE_COVERING=1 writes it");
  }
  return computed;
}

}  // namespace stepfuse::testing
