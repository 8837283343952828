// The table of bounds: what no optimizer of that formula can use, as torch.optim refuses it. Knows fmt.
#include "ir/recipes/arg_bounds.hpp"

#include <cmath>

#include <fmt/format.h>

namespace stepfuse {
namespace {

ArgBounds at_least_0() { return {.any = false}; }
ArgBounds above_0() { return {.any = false, .above_low = true}; }
ArgBounds decay_rate() { return {.any = false, .high = 1, .below_high = true}; }
ArgBounds share() { return {.any = false, .high = 1}; }

struct Row {
  std::string_view name;
  ArgBounds (*bounds)();
};
constexpr Row kTable[] = {
    {"lr", at_least_0},          {"lr_decay", at_least_0},     {"eps", at_least_0},
    {"beta1", decay_rate},       {"beta2", decay_rate},        {"alpha", at_least_0},
    {"momentum", at_least_0},    {"weight_decay", at_least_0}, {"ema_decay", share},
    {"max_norm", at_least_0},    {"max_value", at_least_0},    {"skip_norm", at_least_0},
    {"accumulation", above_0},   {"max_streak", above_0},      {"growth_factor", above_0},
    {"backoff_factor", above_0}, {"growth_interval", above_0}, {"hysteresis", above_0},
    {"min_scale", above_0},      {"max_scale", above_0},
};

}  // namespace

ArgBounds arg_bounds(std::string_view name) {
  for (const Row& row : kTable) {
    if (row.name == name) return row.bounds();
  }
  return {};
}

std::string ArgBounds::text() const {
  std::string out = fmt::format("{} {}", above_low ? "above" : "at least", low);
  if (std::isfinite(high)) out += fmt::format(" and {} {}", below_high ? "below" : "at most", high);
  return out;
}

}  // namespace stepfuse
