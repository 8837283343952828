// Pairwise covering sets, grown greedily. Knows only std.
#include "tests/support/pairwise.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "tests/support/long_run.hpp"
#include "tests/support/rng.hpp"

namespace stepfuse::testing {
namespace {

struct Setting {
  int factor = 0;
  int value = 0;
  friend auto operator<=>(const Setting&, const Setting&) = default;
};
using Pair = std::pair<Setting, Setting>;  // the lower factor is first

std::vector<Pair> pairs_of(const Row& row) {
  std::vector<Pair> pairs;
  for (size_t f = 0; f < row.size(); ++f) {
    for (size_t g = f + 1; g < row.size(); ++g) {
      pairs.push_back({{static_cast<int>(f), row[f]}, {static_cast<int>(g), row[g]}});
    }
  }
  return pairs;
}

class Cover {
 public:
  Cover(const std::vector<Factor>& factors, const std::function<bool(const Row&)>& valid,
        uint64_t seed)
      : factors_(factors), valid_(valid), rng_(seed), defaults_(factors.size(), 0) {}

  CoveringSet run() {
    for_each_setting([&](Setting s) { bases_.push_back(base_of(s)); });
    for_each_setting([&](Setting a) {
      for_each_setting([&](Setting b) {
        if (a.factor < b.factor) open_.insert({a, b});
      });
    });
    while (!open_.empty()) {
      Pair pair = most_wanted();
      std::optional<Row> row = row_with(pair);
      if (!row) {
        result_.contradictions.push_back(text(pair.first) + " " + text(pair.second));
        open_.erase(pair);
        continue;
      }
      grow(*row, pair);
      result_.covered += close(*row);
      result_.rows.push_back(std::move(*row));
    }
    most_pairs_first();
    return std::move(result_);
  }

 private:
  template <class F>
  void for_each_setting(F&& f) const {
    for (size_t i = 0; i < factors_.size(); ++i) {
      for (size_t v = 0; v < factors_[i].values.size(); ++v) {
        f(Setting{static_cast<int>(i), static_cast<int>(v)});
      }
    }
  }
  static int& at(Row& row, int factor) { return row[static_cast<size_t>(factor)]; }
  static Row with(Row row, Setting s) {
    at(row, s.factor) = s.value;
    return row;
  }
  std::string text(Setting s) const {
    const Factor& f = factors_[static_cast<size_t>(s.factor)];
    return f.name + "=" + f.values[static_cast<size_t>(s.value)];
  }

  // A valid row with the setting and at most two more settings that are not the default.
  Row base_of(Setting s) const {
    Row row = with(defaults_, s);
    if (valid_(row)) return row;
    Row found;
    for_each_setting([&](Setting t) {
      if (t.factor != s.factor && found.empty() && valid_(with(row, t))) found = with(row, t);
    });
    for_each_setting([&](Setting t) {
      for_each_setting([&](Setting u) {
        bool other = t.factor < u.factor && t.factor != s.factor && u.factor != s.factor;
        if (!other || !found.empty()) return;
        if (Row two = with(with(row, t), u); valid_(two)) found = two;
      });
    });
    return found;
  }
  const Row& base(Setting s) const {
    size_t i = static_cast<size_t>(s.value);
    for (int f = 0; f < s.factor; ++f) i += factors_[static_cast<size_t>(f)].values.size();
    return bases_[i];
  }

  // The pair whose two settings occur in the most open pairs.
  Pair most_wanted() const {
    std::map<Setting, int> wanted;
    for (const auto& [a, b] : open_) {
      ++wanted[a];
      ++wanted[b];
    }
    return *std::max_element(open_.begin(), open_.end(), [&](const Pair& a, const Pair& b) {
      return wanted[a.first] + wanted[a.second] < wanted[b.first] + wanted[b.second];
    });
  }

  // The base rows of both settings combined, if they fit, perhaps with one more setting.
  std::optional<Row> row_with(Pair pair) const {
    auto [a, b] = pair;
    if (base(a).empty() || base(b).empty()) return std::nullopt;
    for (auto [first, second] : {pair, Pair{b, a}}) {
      Row row = base(first);
      for (size_t i = 0; i < row.size(); ++i) {
        if (base(second)[i] != 0) row[i] = base(second)[i];
      }
      row = with(with(row, a), b);
      if (valid_(row)) return row;
      std::optional<Row> repaired;
      for_each_setting([&](Setting t) {
        bool other = t.factor != a.factor && t.factor != b.factor;
        if (other && !repaired && valid_(with(row, t))) repaired = with(row, t);
      });
      if (repaired) return repaired;
    }
    return std::nullopt;
  }

  // Sets the other factors one by one to the valid value that covers the most open pairs.
  void grow(Row& row, Pair fixed) {
    std::vector<int> order(factors_.size());
    std::iota(order.begin(), order.end(), 0);
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng_.below(i)]);
    for (int f : order) {
      if (f == fixed.first.factor || f == fixed.second.factor) continue;
      int best = at(row, f);
      auto best_gain = gain(row, {f, best});
      auto count = static_cast<int>(factors_[static_cast<size_t>(f)].values.size());
      auto from = static_cast<int>(rng_.below(static_cast<uint64_t>(count)));
      for (int k = 0; k < count; ++k) {
        int v = (from + k) % count;
        int g = gain(row, {f, v});
        if (g > best_gain && valid_(with(row, {f, v}))) {
          best = v;
          best_gain = g;
        }
      }
      at(row, f) = best;
    }
  }
  int gain(const Row& row, Setting s) const {
    int n = 0;
    for (size_t f = 0; f < row.size(); ++f) {
      Setting other{static_cast<int>(f), row[f]};
      if (other.factor == s.factor) continue;
      n += open_.contains(std::minmax(s, other)) ? 1 : 0;
    }
    return n;
  }

  int close(const Row& row) {
    int n = 0;
    for (const Pair& pair : pairs_of(row)) n += static_cast<int>(open_.erase(pair));
    return n;
  }

  // The last rows are many and have one open pair each.
  void most_pairs_first() {
    std::vector<std::vector<Pair>> adds;
    for (const Row& row : result_.rows) adds.push_back(pairs_of(row));
    std::set<Pair> covered;
    std::set<Setting> seen;
    for (size_t k = 0; k < adds.size(); ++k) {
      for (size_t i = k; i < adds.size(); ++i) {
        std::erase_if(adds[i], [&](const Pair& pair) { return covered.contains(pair); });
      }
      auto most = std::max_element(adds.begin() + static_cast<std::ptrdiff_t>(k), adds.end(),
                                   [](auto& a, auto& b) { return a.size() < b.size(); });
      std::swap(adds[k], *most);
      std::swap(result_.rows[k], result_.rows[static_cast<size_t>(most - adds.begin())]);
      size_t seen_before = seen.size();
      for (const auto& [a, b] : adds[k]) seen.insert({a, b});
      bool is_few = 10 * covered.size() < 9 * static_cast<size_t>(result_.covered);
      // A value not seen yet is in a later row, if in any.
      if (is_few || seen.size() > seen_before) result_.usual = k + 1;
      covered.insert(adds[k].begin(), adds[k].end());
    }
  }

  const std::vector<Factor>& factors_;
  const std::function<bool(const Row&)>& valid_;
  Rng rng_;
  Row defaults_;
  std::vector<Row> bases_;  // [setting]; empty if it contradicts itself
  std::set<Pair> open_;
  CoveringSet result_;
};

}  // namespace

CoveringSet pairwise_covering_set(const std::vector<Factor>& factors,
                                  const std::function<bool(const Row&)>& valid, uint64_t seed) {
  return Cover(factors, valid, seed).run();
}

std::vector<Row> rows_to_run(const CoveringSet& set) {
  size_t count = is_long_run() ? set.rows.size() : set.usual;
  return {set.rows.begin(), set.rows.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::vector<Row> cheap_rows(const CoveringSet& set, const std::function<double(const Row&)>& cost,
                            double share) {
  if (is_long_run()) return set.rows;
  struct Candidate {
    const Row* row;
    double cost;
    std::vector<Pair> adds;
  };
  std::vector<Candidate> left;
  std::set<Setting> unseen;
  for (const Row& row : set.rows) {
    left.push_back({&row, cost(row), pairs_of(row)});
    for (const auto& [a, b] : left.back().adds) unseen.insert({a, b});
  }
  std::set<Pair> covered;
  std::vector<Row> rows;
  while (true) {
    bool enough = static_cast<double>(covered.size()) >= share * set.covered;
    if (enough && unseen.empty()) return rows;
    auto gain = [&](const Candidate& c) {
      size_t found = c.adds.size();
      if (enough) {
        found = 0;
        for (size_t f = 0; f < c.row->size(); ++f)
          found += unseen.count({static_cast<int>(f), (*c.row)[f]});
      }
      return static_cast<double>(found) / c.cost;
    };
    auto best =
        std::max_element(left.begin(), left.end(),
                         [&](const Candidate& x, const Candidate& y) { return gain(x) < gain(y); });
    rows.push_back(*best->row);
    for (const Pair& pair : best->adds) {
      covered.insert(pair);
      unseen.erase(pair.first);
      unseen.erase(pair.second);
    }
    left.erase(best);
    for (Candidate& c : left)
      std::erase_if(c.adds, [&](const Pair& pair) { return covered.contains(pair); });
  }
}

size_t pairs_in(const std::vector<Row>& rows) {
  std::set<Pair> pairs;
  for (const Row& row : rows) {
    for (const Pair& pair : pairs_of(row)) pairs.insert(pair);
  }
  return pairs.size();
}

std::vector<std::string> faults_of(size_t count, const std::function<std::string(size_t)>& check) {
  std::mutex mutex;
  std::vector<std::string> faults;
  std::atomic<size_t> next = 0;
  auto work = [&] {
    for (size_t k = next++; k < count; k = next++) {
      std::string fault;
      try {
        fault = check(k);
      } catch (const std::exception& e) {
        fault = e.what();
      }
      std::lock_guard lock(mutex);
      if (!fault.empty()) faults.push_back(fault);
    }
  };
  std::vector<std::thread> threads;
  unsigned most = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  for (unsigned t = 0; t < most; ++t) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  return faults;
}

}  // namespace stepfuse::testing
