// What an optimizer is to the pipeline: its arguments and its formula. Knows ir only.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/recipes/context.hpp"

namespace stepfuse::recipes {

struct Optimizer {
  std::string_view name;
  std::string_view help;
  WeightDecay weight_decay;                       // its own kind
  std::vector<ArgSpec> (*args)(const Settings&);  // without weight_decay
  double default_weight_decay;
  // From c.gradient and c.weight to the new weight; updates what it keeps.
  Value (*formula)(Context& c);
  std::vector<std::string_view> options;  // those of the table that only some optimizers take
};

extern const Optimizer kAdam, kAdamw, kSgd, kRmsprop, kAdagrad, kLion;
std::span<const Optimizer* const> all_optimizers();

}  // namespace stepfuse::recipes
