// The table of well-known arguments. No optimizer with that formula can use a value out of bounds, and
// torch.optim refuses such values, too. Knows fmt.
#include "ir/recipes/arg_bounds.hpp"

#include <cmath>

#include <fmt/format.h>

#include "ir/recipes/arg_meaning.hpp"

namespace stepfuse {
namespace {

ArgBounds any_value() { return {}; }
ArgBounds at_least_0() { return {.any = false}; }
ArgBounds above_0() { return {.any = false, .above_low = true}; }
ArgBounds decay_rate() { return {.any = false, .high = 1, .below_high = true}; }
ArgBounds share() { return {.any = false, .high = 1}; }

struct Row {
  std::string_view name;
  ArgBounds (*bounds)();
  std::string_view meaning;
};
constexpr Row kTable[] = {
    {"lr", at_least_0, "learning rate"},
    {"lr_scale", at_least_0, "factor on a tensor's learning rate"},
    {"weight_decay_scale", at_least_0, "factor on a tensor's weight decay"},
    {"grad_scale_inv", any_value, "factor that undoes the scale of a tensor's stored gradients"},
    {"lr_decay", at_least_0, "decay of the learning rate per step"},
    {"eps", at_least_0, "added to the denominator"},
    {"eps1", at_least_0, "lower bound of squared gradients"},
    {"eps2", at_least_0, "lower bound of a weight's root mean square"},
    {"beta1", decay_rate, "decay rate of the first moment"},
    {"beta2", decay_rate, "decay rate of the second moment"},
    {"beta3", decay_rate, "decay rate of the third average"},
    {"alpha", at_least_0,
     "rmsprop: decay rate; ademamix: weight of the slow average; asgd: exponent"},
    {"rho", share, "decay rate of the averages"},
    {"momentum", at_least_0, "decay rate of the momentum"},
    {"dampening", any_value, "share of the gradient that does not enter the momentum"},
    {"weight_decay", at_least_0, "weight decay; 0 means none"},
    {"ema_decay", share, "decay rate of the moving average of the weights"},
    {"max_norm", at_least_0, "largest norm of the gradients"},
    {"max_value", at_least_0, "largest magnitude of a gradient"},
    {"clip_z", above_0, "standard deviations above the mean norm at which clipping starts"},
    {"clip_growth", above_0, "largest ratio of a tensor's norm to its average norm"},
    {"clip_factor", above_0, "largest ratio of a row's gradient norm to its weight norm"},
    {"clip_eps", above_0, "lower bound of a row's weight norm"},
    {"clip_decay", decay_rate, "decay rate of the average norms"},
    {"clip_warmup", at_least_0, "first steps, which clip to max_norm and start the averages"},
    {"max_update", above_0, "largest size of a tensor's update"},
    {"skip_norm", at_least_0, "steps with a larger norm are skipped"},
    {"accumulation", above_0, "number of micro-batches in the gradients"},
    {"external_norm", any_value, "the norm, computed by the caller"},
    {"external_found_inf", any_value, "nonzero if a gradient is inf or NaN"},
    {"max_streak", above_0, "consecutive skipped steps that are reported as stuck"},
    {"growth_factor", above_0, "factor by which the loss scale grows"},
    {"backoff_factor", above_0, "factor by which the loss scale falls after an overflow"},
    {"growth_interval", above_0, "good steps before the loss scale grows"},
    {"hysteresis", above_0, "overflows before the loss scale falls"},
    {"min_scale", above_0, "lower bound of the loss scale"},
    {"max_scale", above_0, "upper bound of the loss scale"},
};

const Row* find(std::string_view name) {
  for (const Row& row : kTable) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace

ArgBounds arg_bounds(std::string_view name) {
  const Row* row = find(name);
  return row != nullptr ? row->bounds() : ArgBounds{};
}

std::string_view arg_meaning(std::string_view name) {
  const Row* row = find(name);
  return row != nullptr ? row->meaning : "";
}

std::string ArgBounds::text() const {
  std::string out = fmt::format("{} {}", above_low ? "above" : "at least", low);
  if (std::isfinite(high)) out += fmt::format(" and {} {}", below_high ? "below" : "at most", high);
  return out;
}

}  // namespace stepfuse
