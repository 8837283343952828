// Lines that codes are guessed by, fitted to a table's bounds and proved. Knows std.
//
// A line per range of magnitudes gives the code or its predecessor, which is proved for every float, so one comparison
// with a bound decides. Tables that no such lines fit, and small ones in CUDA, are searched as a tree instead. The CPU
// has two more ways: tables in permuted registers (compiler/llvm/tables.cpp), and cells chosen by a number's bits
// (compiler/llvm/cells.cpp).
#include "compiler/plan/code_guess.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "ir/semantics/fp_env.hpp"

namespace stepfuse::plan {
namespace {

constexpr uint32_t kSign = 0x80000000U;

uint32_t bits(float v) { return std::bit_cast<uint32_t>(v); }
float of_bits(uint32_t v) { return std::bit_cast<float>(v); }
float before(float v) { return std::nextafter(v, -std::numeric_limits<float>::infinity()); }

float y_of(const CodeGuess& guess, float x) {
  return std::fma(std::abs(x), guess.scale, guess.grain);
}

// A number, and how many bounds are at most that number.
struct Bound {
  float x;
  int count;
};

// The limits between which a line must lie at y.
struct Gate {
  double y, low, high;
};

class Fit {
 public:
  // `by_size` has the same bounds, sorted by their magnitudes.
  Fit(std::span<const float> bounds, std::span<const Bound> by_size, float scale, int line_bits,
      int fraction_bits)
      : bounds_(bounds), by_size_(by_size) {
    guess_.low = before(bounds.front());
    guess_.high = bounds.back();
    guess_.scale = scale;
    guess_.center = static_cast<float>(code_of(0) + 1);
    guess_.shift = 23 - fraction_bits;
    guess_.slopes.assign(size_t{1} << line_bits, 0);
    guess_.offsets = guess_.slopes;
    binades_ = 1 << (line_bits - fraction_bits);
  }

  bool run() {
    float most = std::max(std::abs(guess_.low), std::abs(guess_.high)) * guess_.scale;
    if (most == 0 || !std::isfinite(most)) return false;
    int top = std::ilogb(most);
    for (int end : {top, top + 1}) {  // both neighbours, so that y lies in enough binades
      int first = end - binades_ + 1;
      if (first < -126 || end > 126) return false;
      guess_.grain = std::ldexp(1.0F, first);
      if (std::ilogb(most + guess_.grain) == end) return fit_all();
    }
    return false;
  }
  const CodeGuess& guess() const { return guess_; }

 private:
  bool fit_all() {
    uint32_t y = bits(guess_.grain);
    float first = 0;
    auto bound = by_size_.begin();
    for (size_t k = 0; k < guess_.slopes.size(); ++k) {
      y += 1U << guess_.shift;
      float next = magnitude_of(y);
      auto end =
          std::find_if(bound, by_size_.end(), [&](Bound b) { return std::abs(b.x) >= next; });
      collect(first, before(next), {bound, end});
      line_ = ((y - 1) >> guess_.shift) % guess_.slopes.size();
      if (!gates_.empty() && !fit()) return false;
      first = next;
      bound = end;
    }
    return true;
  }

  int code_of(float x) const {
    return static_cast<int>(std::upper_bound(bounds_.begin(), bounds_.end(), x) - bounds_.begin());
  }

  // Returns the smallest magnitude whose y has these bits or larger ones.
  float magnitude_of(uint32_t y) const {
    float x = std::max(0.0F, (of_bits(y) - guess_.grain) / guess_.scale);
    while (bits(y_of(guess_, x)) < y) x = std::nextafter(x, std::numeric_limits<float>::infinity());
    while (x > 0 && bits(y_of(guess_, before(x))) >= y) x = before(x);
    return x;
  }

  // Collects the points where the code changes and where the line ends. Between two such points, neither
  // the code nor the guess leaves the range of their values there, because the line ascends. A number below
  // a negative bound may be the first one of the next line.
  void collect(float first, float last, std::span<const Bound> within) {
    tested_.clear();
    gates_.clear();
    auto test = [&](float x, int code, double middle, double reach) {
      if (std::abs(x) < first || std::abs(x) > last || x < guess_.low || x > guess_.high) return;
      tested_.push_back({x, code});
      if (std::signbit(x)) middle = -middle;
      gates_.push_back({static_cast<double>(y_of(guess_, x)), middle - reach, middle + reach});
    };
    double center = guess_.center - 1;
    for (float x : {first, last, -first, -last}) {
      int code = code_of(x);
      test(x, code, code - center, 1);
    }
    for (const Bound& b : within) {
      test(b.x, b.count, b.count - 0.5 - center, 0.5);
      test(before(b.x), b.count - 1, b.count - 0.5 - center, 0.5);
    }
  }

  bool fit() {
    auto by_y = [](const Gate& a, const Gate& b) { return a.y < b.y; };
    auto [first, last] = std::minmax_element(gates_.begin(), gates_.end(), by_y);
    double rise = (last->low + last->high - first->low - first->high) / 2;
    double slope = last->y > first->y ? rise / (last->y - first->y) : 0;
    for (int sixteenths = 32; sixteenths >= 0; --sixteenths) {
      if (holds_along(slope * sixteenths / 16)) return true;
    }
    return false;
  }

  bool holds_along(double slope) {
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
    for (const Gate& g : gates_) {
      low = std::max(low, g.low - slope * g.y);
      high = std::min(high, g.high - slope * g.y);
      if (low >= high) return false;
    }
    guess_.slopes[line_] = static_cast<float>(slope);
    guess_.offsets[line_] = static_cast<float>((low + high) / 2);
    return slope >= 0 && std::all_of(tested_.begin(), tested_.end(), [&](Bound t) {
             int code = guessed(guess_, t.x);
             return (code == t.count || code == t.count + 1) &&
                    code <= static_cast<int>(bounds_.size());
           });
  }

  std::span<const float> bounds_;
  std::span<const Bound> by_size_;
  CodeGuess guess_;
  int binades_ = 0;
  size_t line_ = 0;
  std::vector<Bound> tested_;
  std::vector<Gate> gates_;
};

}  // namespace

int32_t guessed(const CodeGuess& guess, float x) {
  float above = x > guess.low ? x : guess.low;
  float held = above < guess.high ? above : guess.high;
  float y = y_of(guess, held);
  size_t line = (bits(y) >> guess.shift) % guess.slopes.size();
  float u = std::fma(y, guess.slopes[line], guess.offsets[line]);
  return static_cast<int32_t>(guess.center + of_bits(bits(u) ^ (bits(held) & kSign)));
}

std::optional<CodeGuess> guess_of(std::span<const float> bounds) {
  FpEnvGuard guard;
  std::vector<Bound> by_size;
  for (float b : bounds) by_size.push_back({b, static_cast<int>(by_size.size()) + 1});
  std::sort(by_size.begin(), by_size.end(),
            [](Bound a, Bound b) { return std::abs(a.x) < std::abs(b.x); });
  for (int line_bits : {4, 5, 6}) {
    for (int fraction_bits = 0; fraction_bits <= line_bits; ++fraction_bits) {
      for (int eighths : {8, 10, 9, 11, 12, 13, 14, 15}) {
        Fit fit(bounds, by_size, static_cast<float>(eighths) / 8, line_bits, fraction_bits);
        if (fit.run()) return fit.guess();
      }
    }
  }
  return {};
}

}  // namespace stepfuse::plan
