// The table of well-known arguments. A value out of bounds is one that no optimizer of that formula can
// use, as torch.optim refuses it. Knows fmt.
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
    {"lr_scale", at_least_0, "what a tensor's learning rate is multiplied by"},
    {"weight_decay_scale", at_least_0, "what a tensor's weight decay is multiplied by"},
    {"grad_scale_inv", any_value, "what a tensor's stored gradients are multiplied by at first"},
    {"lr_decay", at_least_0, "how fast the learning rate falls with the steps"},
    {"eps", at_least_0, "keeps the division from 0"},
    {"beta1", decay_rate, "share that the average of gradients keeps in a step"},
    {"beta2", decay_rate, "the same of the second average"},
    {"beta3", decay_rate, "the same of the third average"},
    {"alpha", at_least_0, "share that the average keeps, or the weight of one"},
    {"rho", share, "share that the averages keep in a step"},
    {"momentum", at_least_0, "share that the momentum keeps in a step"},
    {"dampening", any_value, "share of the gradient that the momentum leaves out"},
    {"weight_decay", at_least_0, "weight decay; 0: none"},
    {"ema_decay", share, "share that the weights' moving average keeps"},
    {"max_norm", at_least_0, "gradients are clipped to this norm"},
    {"max_value", at_least_0, "gradients are clipped to this size"},
    {"clip_z", above_0, "standard deviations above the mean that a norm is clipped at"},
    {"clip_growth", above_0, "what a tensor's norm may be of its average"},
    {"clip_factor", above_0, "what a row's norm may be of its weights'"},
    {"clip_eps", above_0, "the least norm of a row's weights that it is clipped by"},
    {"clip_decay", decay_rate, "share that the averages of norms keep in a step"},
    {"clip_warmup", at_least_0, "steps that only clip to max_norm and begin the averages"},
    {"skip_norm", at_least_0, "steps with a larger norm are skipped"},
    {"accumulation", above_0, "number of micro-batches in the gradients"},
    {"external_norm", any_value, "the norm, where the caller knows it"},
    {"external_found_inf", any_value, "whether a gradient is not finite"},
    {"max_streak", above_0, "skipped steps in a row that are reported as stuck"},
    {"growth_factor", above_0, "what the scale grows by"},
    {"backoff_factor", above_0, "what the scale falls by after an overflow"},
    {"growth_interval", above_0, "good steps before the scale grows"},
    {"hysteresis", above_0, "overflows before the scale falls"},
    {"min_scale", above_0, "the scale stays above"},
    {"max_scale", above_0, "the scale stays below"},
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
