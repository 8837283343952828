// A greedy pairwise covering: each row begins with an uncovered pair and is filled up so that it
// covers as many more as possible.
#include "tests/ptx/covering.hpp"

#include <optional>
#include <set>

#include "tests/differential/rng.hpp"

namespace stepfuse::testing {
namespace {

struct Pair {
  size_t f, a, g, b;  // factor f has value a, factor g has value b; f < g
  auto operator<=>(const Pair&) const = default;
};

class Coverer {
 public:
  Coverer(const std::vector<Factor>& factors, const std::function<bool(const Choice&)>& possible,
          uint64_t seed)
      : factors_(factors), possible_(possible), rng_(seed) {
    for (size_t f = 0; f < factors.size(); ++f) {
      for (size_t g = f + 1; g < factors.size(); ++g) {
        for (size_t a = 0; a < factors[f].values.size(); ++a) {
          for (size_t b = 0; b < factors[g].values.size(); ++b) open_.insert({f, a, g, b});
        }
      }
    }
  }

  Covering run() {
    Covering result;
    size_t all = open_.size();
    while (!open_.empty()) {
      Pair first = *open_.begin();
      auto row = best_row(first);
      if (!row) {
        open_.erase(first);
        ++result.impossible;
        continue;
      }
      std::erase_if(open_, [&](const Pair& p) { return has(*row, p); });
      result.rows.push_back(*row);
    }
    result.pairs = all - result.impossible;
    return result;
  }

 private:
  static bool has(const Choice& row, const Pair& p) { return row[p.f] == p.a && row[p.g] == p.b; }

  size_t gain(const Choice& row) const {
    size_t n = 0;
    for (const Pair& p : open_) n += has(row, p) ? 1 : 0;
    return n;
  }

  // The more a row strays from the plain values, the likelier it contradicts itself.
  std::optional<Choice> candidate(const Pair& p, int stray) {
    Choice row(factors_.size());
    for (size_t f = 0; f < row.size(); ++f) {
      if (rng_.chance(stray)) row[f] = rng_.below(factors_[f].values.size());
    }
    row[p.f] = p.a;
    row[p.g] = p.b;
    if (!possible_(row)) return std::nullopt;
    return row;
  }

  std::optional<Choice> best_row(const Pair& p) {
    std::optional<Choice> best;
    size_t best_gain = 0;
    int found = 0;
    for (int attempt = 0; attempt < 300 && found < 25; ++attempt) {
      auto row = candidate(p, attempt % 10 * 10);
      if (!row) continue;
      ++found;
      size_t g = gain(*row);
      if (g > best_gain) {
        best_gain = g;
        best = row;
      }
    }
    return best;
  }

  const std::vector<Factor>& factors_;
  const std::function<bool(const Choice&)>& possible_;
  Rng rng_;
  std::set<Pair> open_;
};

}  // namespace

Covering cover_pairs(const std::vector<Factor>& factors,
                     const std::function<bool(const Choice&)>& possible, uint64_t seed) {
  return Coverer(factors, possible, seed).run();
}

}  // namespace stepfuse::testing
