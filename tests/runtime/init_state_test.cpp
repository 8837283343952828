// init_state() initialises the step's own values and keeps the caller's. Knows the public API.
#include <algorithm>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;

TEST_CASE("init_state() starts again what the step writes and keeps what the caller wrote") {
  RecipeOptions options{.model = DType::bf16};
  options.weight_rounding = WeightRounding::stochastic;
  for (const Device& device : {Device::interpreter(), Device::cpu(1)}) {
    constexpr size_t kSize = 64;
    Layout layout;
    layout.add({.name = "a", .elements = kSize});
    Step step(make_recipe("adamw", options), layout, device);
    std::vector<uint16_t> weight(kSize, 0x3F80);  // 1 in bf16
    std::vector<float> exp_avg(kSize, 3), exp_avg_sq(kSize, 3), grad(kSize, 0.25F);
    step.bind_raw("weight", {weight.data()});
    step.bind_raw("exp_avg", {exp_avg.data()});
    step.bind_raw("exp_avg_sq", {exp_avg_sq.data()});
    step.prepare();
    CHECK(step.read_state("seed")[0].i64() == 0);
    step.write_state("seed", std::vector<Bits>{Bits::of(int64_t{77})});
    Args args = step.make_args();
    args.set("lr", 1e-3);

    std::vector<uint16_t> first;
    for (int round = 0; round < 2; ++round) {
      std::fill(weight.begin(), weight.end(), uint16_t{0x3F80});
      step.init_state();
      CHECK(step.read_state("seed")[0].i64() == 77);
      CHECK(step.read_state("step")[0].i64() == 0);
      CHECK(exp_avg[5] == 0);
      step.run({grad.data()}, args);
      CHECK(step.read_state("step")[0].i64() == 1);
      if (round == 0) first = weight;
      CHECK(weight == first);
    }
    // append() initialises the new tensor's values and keeps the rest.
    step.append({.name = "b", .elements = 4});
    CHECK(step.read_state("seed")[0].i64() == 77);
  }
}
