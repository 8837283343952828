// Covering sets of options. Knows only std.
#include <algorithm>
#include <set>
#include <stdexcept>

#include <doctest/doctest.h>

#include "tests/support/covering_file.hpp"

using namespace stepfuse::testing;

namespace {

const std::vector<Factor> kFactors = {{"a", {"0", "1", "2", "3", "4", "5"}},
                                      {"b", {"0", "1", "2", "3", "4"}},
                                      {"c", {"0", "1"}},
                                      {"d", {"0", "1", "2"}}};

bool is_valid(const Row& row) { return row[2] == 0 || row[3] != 2; }

}  // namespace

TEST_CASE("a covering set has every pair that may be, and its usual rows most of them") {
  CoveringSet set = pairwise_covering_set(kFactors, is_valid, 1);
  for (const Row& row : set.rows) CHECK(is_valid(row));
  size_t all = 6 * 5 + 6 * 2 + 6 * 3 + 5 * 2 + 5 * 3 + 2 * 3 - 1;
  CHECK(set.contradictions == std::vector<std::string>{"c=1 d=2"});
  CHECK(pairs_in(set.rows) == all);
  CHECK(set.covered == static_cast<int>(all));
  CHECK(set.rows.size() < 6 * 5 + 6);

  std::vector<Row> usual(set.rows.begin(), set.rows.begin() + static_cast<int>(set.usual));
  CHECK(usual.size() < set.rows.size());
  CHECK(10 * pairs_in(usual) >= 9 * all);
  for (size_t f = 0; f < kFactors.size(); ++f) {
    std::set<int> values;
    for (const Row& row : usual) values.insert(row[f]);
    CHECK(values.size() == kFactors[f].values.size());
  }
}

TEST_CASE(
    "cheap rows have every value and the share of pairs, and leave dear rows out where they can") {
  CoveringSet set = pairwise_covering_set(kFactors, is_valid, 1);
  auto is_dear = [](const Row& row) { return row[0] == 3; };
  std::vector<Row> rows =
      cheap_rows(set, [&](const Row& row) { return is_dear(row) ? 100.0 : 1.0; }, 0.5);
  for (size_t f = 0; f < kFactors.size(); ++f) {
    std::set<int> values;
    for (const Row& row : rows) values.insert(row[f]);
    CHECK(values.size() == kFactors[f].values.size());
  }
  CHECK(2 * pairs_in(rows) >= static_cast<size_t>(set.covered));
  CHECK(std::count_if(rows.begin(), rows.end(), is_dear) == 1);
  CHECK(pairs_in(cheap_rows(
            set, [](const Row&) { return 1.0; }, 1)) == static_cast<size_t>(set.covered));
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
