// A step with exp, log, tanh and % of elements, tensors and counts. Knows the public API.
#pragma once

#include <stepfuse/recipes.hpp>

namespace stepfuse::testing {

inline Program elementary_program() {
  return make_recipe(parse_optimizer(R"(
    optimizer elementary "" {
      hyper lr = 0.1, every = 3
      moment m, v
      state size : tensor = 1
      state narrow : tensor f32 = 1
      let n = norm(g, tensor)
      size = exp(0 - size) + log(n) * tanh(size) + n % 0.7
      narrow = tanh(narrow * 0.3) + exp(narrow) % 1.5
      m = exp(g * 40) + log(abs(w))
      v = tanh(g) % (w - 0.5) + log(g)
      report gate = tanh(log(count(tensor)) % 5)
      w = t % every == 0 && t % 2 == 1 ? w - lr * tanh(m) : w - lr * exp(v) * narrow
    })"));
}

}  // namespace stepfuse::testing
