// Covering sets of options. Knows only std.
#include <set>
#include <stdexcept>
#include <tuple>

#include <doctest/doctest.h>

#include "tests/support/covering_file.hpp"

using namespace stepfuse::testing;

namespace {

const std::vector<Factor> kFactors = {{"a", {"0", "1", "2", "3", "4", "5"}},
                                      {"b", {"0", "1", "2", "3", "4"}},
                                      {"c", {"0", "1"}},
                                      {"d", {"0", "1", "2"}}};

bool is_valid(const Row& row) { return row[2] == 0 || row[3] != 2; }

size_t pairs_of(const std::vector<Row>& rows) {
  std::set<std::tuple<size_t, int, size_t, int>> pairs;
  for (const Row& row : rows) {
    for (size_t f = 0; f < row.size(); ++f) {
      for (size_t g = f + 1; g < row.size(); ++g) pairs.insert({f, row[f], g, row[g]});
    }
  }
  return pairs.size();
}

}  // namespace

TEST_CASE("a covering set has every pair that may be, and its usual rows most of them") {
  CoveringSet set = pairwise_covering_set(kFactors, is_valid, 1);
  for (const Row& row : set.rows) CHECK(is_valid(row));
  size_t all = 6 * 5 + 6 * 2 + 6 * 3 + 5 * 2 + 5 * 3 + 2 * 3 - 1;
  CHECK(set.contradictions == std::vector<std::string>{"c=1 d=2"});
  CHECK(pairs_of(set.rows) == all);
  CHECK(set.covered == static_cast<int>(all));
  CHECK(set.rows.size() < 6 * 5 + 6);

  std::vector<Row> usual(set.rows.begin(), set.rows.begin() + static_cast<int>(set.usual));
  CHECK(usual.size() < set.rows.size());
  CHECK(10 * pairs_of(usual) >= 9 * all);
  for (size_t f = 0; f < kFactors.size(); ++f) {
    std::set<int> values;
    for (const Row& row : usual) values.insert(row[f]);
    CHECK(values.size() == kFactors[f].values.size());
  }
}

TEST_CASE(
    "a covering set is read back from its text, unless the text is another set's or damaged") {
  CoveringSet set = pairwise_covering_set(kFactors, is_valid, 1);
  std::string text = covering_text(set, kFactors, 1);
  auto back = covering_from(text, kFactors, 1);
  REQUIRE(back);
  CHECK(back->rows == set.rows);
  CHECK(back->covered == set.covered);
  CHECK(back->usual == set.usual);
  CHECK(!covering_from(text, kFactors, 2));
  CHECK(!covering_from("", kFactors, 1));
  std::vector<Factor> more = kFactors;
  more[2].values.emplace_back("2");
  CHECK(!covering_from(text, more, 1));
  CHECK(!covering_from(text + "0003\n", kFactors, 1));
  CHECK(!covering_from(text + "000\n", kFactors, 1));
  CHECK(!covering_from(text.substr(0, text.find("usual")), kFactors, 1));
}

TEST_CASE("faults of cases are collected, and what they throw") {
  std::vector<std::string> faults = faults_of(100, [](size_t k) -> std::string {
    if (k == 17) throw std::runtime_error("thrown");
    return k == 99 ? "found" : "";
  });
  CHECK(std::set<std::string>(faults.begin(), faults.end()) ==
        std::set<std::string>{"thrown", "found"});
  CHECK(faults.size() == 2);
  CHECK(faults_of(0, [](size_t) { return "no case"; }).empty());
}
