// Steps whose first phase stores where nobody observes it: observing again gives the same bits, and
// between the phases nothing is stored yet.
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;

namespace {

constexpr uint64_t kSize = 20'001;

// LAMB over one tensor, whose moments the fused form stores before it knows the ratio of the norms.
struct Trainer {
  std::vector<float> weight = std::vector<float>(kSize, 0.25F);
  std::vector<float> m = std::vector<float>(kSize), v = std::vector<float>(kSize);
  std::vector<float> g = std::vector<float>(kSize), other = std::vector<float>(kSize, 7.0F);
  Step step;

  Trainer(const Device& device, Form form, bool observe) : step(make(device, form, observe)) {
    for (size_t i = 0; i < kSize; ++i) g[i] = static_cast<float>(i % 101) * 0.02F - 1.0F;
    step.prepare();
    step.bind_raw("weight", std::vector<float*>{weight.data()});
    step.bind_raw("exp_avg", std::vector<float*>{m.data()});
    step.bind_raw("exp_avg_sq", std::vector<float*>{v.data()});
    step.init_state();
  }
  static Step make(const Device& device, Form form, bool observe) {
    Layout layout;
    layout.add({.elements = kSize});
    return Step(make_recipe("lamb"), layout, device, {.form = form, .observe = observe});
  }
  void run() { step.run(std::vector<float*>{g.data()}, step.make_args()); }
};

}  // namespace

TEST_CASE("observed twice, LAMB gives the bits of a step that nobody observed, in every form") {
  for (const Device& device : {Device::cpu(1), Device::interpreter()}) {
    Trainer plain(device, Form::fused, false);
    for (int i = 0; i < 2; ++i) plain.run();
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      Trainer t(device, form, true);
      for (int i = 0; i < 2; ++i) {
        t.step.observe(Tensor{0}, std::vector<float*>{t.other.data()}, t.step.make_args());
        t.step.observe(Tensor{0}, std::vector<float*>{t.g.data()}, t.step.make_args());
        t.run();
      }
      CHECK(t.weight == plain.weight);
      CHECK(t.m == plain.m);
      CHECK(t.v == plain.v);
    }
  }
}

TEST_CASE("between the phases LAMB's arrays are as they were") {
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    Trainer t(Device::cpu(1), form, true);
    t.step.reduce(std::vector<float*>{t.g.data()}, t.step.make_args());
    CHECK(t.m == std::vector<float>(kSize));
    t.run();
    CHECK(t.m != std::vector<float>(kSize));
  }
}
