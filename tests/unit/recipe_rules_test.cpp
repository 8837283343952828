// A step in each case of the table in ir/recipes/guard.hpp, and the loss-scale policies, run by the
// interpreter.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "tests/unit/recipe_rig.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kHuge = 3e38F;

RecipeOptions pipeline() {
  return {.loss_scale = LossScale::dynamic,
          .clip = Clip::l2,
          .skip_norm = true,
          .zero_grad = true,
          .ema = true};
}

bool untouched(Rig& rig) {
  for (const auto& a : rig.array("weight")) {
    for (float w : a) {
      if (w != 1) return false;
    }
  }
  for (const char* name : {"exp_avg", "exp_avg_sq"}) {
    for (const auto& a : rig.array(name)) {
      for (float m : a) {
        if (m != 0) return false;
      }
    }
  }
  return rig.array("ema")[0][0] == 1 && rig.count(0) == 0 && rig.count(1) == 0;
}

bool zeroed(Rig& rig) {
  for (const auto& a : rig.array("grad")) {
    for (float g : a) {
      if (g != 0) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a good step updates everything and counts towards growth") {
  Rig rig("adamw", pipeline());
  rig.run(65536);
  CHECK_FALSE(untouched(rig));
  CHECK(rig.count(0) == 1);
  CHECK(rig.count(1) == 1);
  CHECK(zeroed(rig));
  CHECK(rig.state("scale") == 65536);
  CHECK(rig.state("growth_tracker") == 1);
  CHECK(rig.state("grad_norm") == doctest::Approx(std::sqrt(10.0)));
  CHECK(rig.state("clip_coef") == doctest::Approx(1 / std::sqrt(10.0)));
  CHECK(rig.state("skipped") == 0);
  CHECK(rig.state("loss_scale") == 65536);
}

TEST_CASE("a non-finite gradient skips the step and backs off") {
  for (float bad : {kInf, -kInf, std::nanf("")}) {
    Rig rig("adamw", pipeline());
    rig.run(65536, bad);
    CHECK(untouched(rig));
    CHECK(zeroed(rig));
    CHECK(rig.state("scale") == 32768);
    CHECK(rig.state("growth_tracker") == 0);
    CHECK(rig.state("found_inf") == 1);
    CHECK(rig.state("norm_overflow") == 0);
    CHECK(rig.state("over_threshold") == 0);
    CHECK(rig.state("skipped") == 1);
    CHECK(rig.state("clip_coef") == 0);
  }
}

TEST_CASE("finite gradients whose norm overflows skip the step and leave the scale alone") {
  Rig rig("adamw", pipeline());
  rig.run(65536);
  double tracker = rig.state("growth_tracker");
  float before = rig.array("weight")[0][0];
  rig.run(kHuge);
  CHECK(rig.array("weight")[0][0] == before);
  CHECK(rig.count(0) == 1);
  CHECK(zeroed(rig));
  CHECK(rig.state("scale") == 65536);
  CHECK(rig.state("growth_tracker") == tracker);
  CHECK(rig.state("norm_overflow") == 1);
  CHECK(rig.state("found_inf") == 0);
  CHECK(std::isinf(rig.state("grad_norm")));
  CHECK(rig.state("clip_coef") == 0);
}

TEST_CASE("on-norm-overflow=torch takes the step with a coefficient of 0") {
  RecipeOptions o = pipeline();
  o.skip_norm = false;
  o.on_norm_overflow = OnNormOverflow::torch;
  Rig rig("adamw", o);
  rig.run(kHuge);
  CHECK(rig.count(0) == 1);
  CHECK(rig.array("exp_avg")[0][0] == 0);
  CHECK(rig.state("skipped") == 0);
  CHECK(rig.state("growth_tracker") == 1);
}

TEST_CASE("a norm above the threshold skips the step, which counts towards growth") {
  Rig rig("adamw", pipeline());
  rig.set("skip_norm", 3);
  rig.run(65536);
  CHECK(untouched(rig));
  CHECK(zeroed(rig));
  CHECK(rig.state("over_threshold") == 1);
  CHECK(rig.state("skipped") == 1);
  CHECK(rig.state("scale") == 65536);
  CHECK(rig.state("growth_tracker") == 1);
}

TEST_CASE("peers' profiles propagate what they do not look for") {
  Rig standard("adamw", {.clip = Clip::l2});
  standard.run(1, kInf);
  CHECK(standard.array("weight")[0][0] == 1);
  Rig torch("adamw", {.clip = Clip::l2, .profile = Profile::torch_fused});
  torch.run(1, kInf);
  CHECK(std::isnan(torch.array("weight")[1][0]));
}

TEST_CASE("a missing gradient leaves its tensor alone") {
  Rig rig("adamw", {.loss_scale = LossScale::dynamic});
  rig.set_tensor_present(1, false);
  rig.run(65536);
  CHECK(rig.count(0) == 1);
  CHECK(rig.count(1) == 0);
  CHECK(rig.array("weight")[0][0] != 1);
  CHECK(rig.array("weight")[1][0] == 1);
}

TEST_CASE("the scale grows at the interval, and never to infinity") {
  Rig rig("adamw", {.loss_scale = LossScale::dynamic});
  rig.set("growth_interval", 2);
  rig.run(1);
  CHECK(rig.state("scale") == 65536);
  rig.run(1);
  CHECK(rig.state("scale") == 131072);
  CHECK(rig.state("growth_tracker") == 0);
  rig.set("growth_factor", 1e38);
  rig.run(1);
  rig.run(1);
  CHECK(rig.state("scale") == 131072);
  CHECK(rig.state("growth_tracker") == 0);
}

TEST_CASE("the scale stays where its reciprocal is finite; GradScaler's rule goes to 0") {
  for (Profile profile : {Profile::standard, Profile::torch_fused}) {
    Rig rig("adamw", {.loss_scale = LossScale::dynamic, .profile = profile});
    for (int i = 0; i < 200; ++i) rig.run(kInf);
    if (profile == Profile::standard) {
      CHECK(rig.state("scale") == 0x1p-126);
    } else {
      CHECK(rig.state("scale") == 0);
    }
  }
}

TEST_CASE("bounds keep the scale in range") {
  Rig rig("adamw", {.loss_scale = LossScale::dynamic, .scale_bounds = true});
  rig.set("growth_interval", 1);
  rig.set("min_scale", 16384);
  rig.set("max_scale", 262144);
  for (int i = 0; i < 5; ++i) rig.run(1);
  CHECK(rig.state("scale") == 262144);
  for (int i = 0; i < 9; ++i) rig.run(kInf);
  CHECK(rig.state("scale") == 16384);
}

TEST_CASE("a fixed scale unscales and skips, and is never changed") {
  Rig rig("adamw", {.loss_scale = LossScale::fixed, .clip = Clip::l2});
  rig.run(65536);
  CHECK(rig.state("grad_norm") == doctest::Approx(std::sqrt(10.0)));
  rig.run(kInf);
  CHECK(rig.count(0) == 1);
  CHECK(rig.state("scale") == 65536);
}

TEST_CASE("norms of order 1 and infinity, clipping by value") {
  Rig l1("sgd", {.clip = Clip::l1});
  l1.run(2);
  CHECK(l1.state("grad_norm") == 20);
  Rig inf("sgd", {.clip = Clip::inf});
  inf.run(2, -7);
  CHECK(inf.state("grad_norm") == 7);
  inf.run_without_gradients();
  CHECK(inf.state("grad_norm") == 0);
  Rig value("sgd", {.clip = Clip::value});
  value.set("max_value", 0.5);
  value.set("lr", 1);
  value.run(0.25, -3);
  CHECK(value.array("weight")[0][0] == 0.75F);
  CHECK(value.array("weight")[1][0] == 1.5F);
}

TEST_CASE("accumulated gradients are divided in the unscale multiply") {
  Rig rig("sgd", {.loss_scale = LossScale::dynamic, .accumulated = true});
  rig.set("accumulation", 4);
  rig.set("lr", 1);
  rig.run(4 * 65536 * 0.125F);
  CHECK(rig.array("weight")[0][0] == 0.875F);
}

TEST_CASE("monitoring names the first non-finite tensor and counts skips") {
  Rig rig("adamw", {.loss_scale = LossScale::dynamic, .monitor = true});
  rig.set("max_streak", 2);
  rig.run(65536);
  CHECK(rig.state("first_nonfinite") == -1);
  rig.run(65536, kInf);
  CHECK(rig.state("first_nonfinite") == 1);
  CHECK(rig.state("skipped_in_a_row") == 1);
  CHECK(rig.state("stuck") == 0);
  rig.run(kInf);
  CHECK(rig.state("first_nonfinite") == 0);
  CHECK(rig.state("skipped_in_a_row") == 2);
  CHECK(rig.state("stuck") == 1);
  rig.run(65536);
  CHECK(rig.state("skipped_in_a_row") == 0);
  CHECK(rig.state("skip_count") == 2);
  CHECK(rig.state("stuck") == 1);
}

TEST_CASE("a weight decay of 0 leaves gradients as they are, whatever the weight") {
  Rig sgd("sgd", {.momentum = true});
  sgd.array("weight")[0][0] = kInf;
  sgd.run(-0.0F);
  CHECK(std::signbit(sgd.array("momentum_buffer")[0][1]));
  for (const char* recipe : {"sgd", "adam", "rmsprop", "adagrad"}) {
    CAPTURE(recipe);
    Rig rig(recipe, {});
    rig.array("weight")[0][0] = kInf;
    rig.run(0.25F);
    CHECK(rig.array("weight")[0][0] == kInf);
    Rig with_decay(recipe, {});
    with_decay.set("weight_decay", 1e-60);  // 0 in f32, but torch compares in f64
    with_decay.array("weight")[0][0] = kInf;
    with_decay.run(0.25F);
    CHECK(std::isnan(with_decay.array("weight")[0][0]));
  }
}

TEST_CASE("a momentum of 0 is off, and the buffer starts undamped with the first other one") {
  for (bool nesterov : {false, true}) {
    Rig rig("sgd", {.momentum = true, .nesterov = nesterov});
    rig.set("lr", 1);
    rig.set("momentum", 0);
    rig.set("dampening", 0.5);
    float buffer = rig.array("momentum_buffer")[0][0] = 7;
    rig.run(0.25F);
    rig.run(0.25F);
    CHECK(rig.array("weight")[0][0] == 0.5F);
    CHECK(rig.array("momentum_buffer")[0][0] == buffer);
    rig.set("momentum", 0.5);
    rig.set_tensor_present(1, false);
    rig.run(0.25F);
    CHECK(rig.array("momentum_buffer")[0][0] == 0.25F);  // initialised, undamped
    CHECK(rig.array("momentum_buffer")[1][0] == 0);
    rig.set_tensor_present(1, true);
    rig.run(0.25F);
    CHECK(rig.array("momentum_buffer")[0][0] == 0.25F);  // 0.5 * 0.25 + 0.5 * 0.25
    CHECK(rig.array("momentum_buffer")[1][0] == 0.25F);
    rig.set("momentum", 0);
    rig.run(1, -kInf);  // not updated, and used again later
    CHECK(rig.array("momentum_buffer")[0][0] == 0.25F);
    CHECK(rig.array("weight")[1][0] == kInf);  // also with Nesterov
    CHECK(rig.state("momentum_begun") == 1);
  }
}

TEST_CASE("RMSprop with a momentum of 0 rounds as RMSprop without one") {
  Rig with("rmsprop", {.momentum = true});
  with.set("momentum", 0);
  Rig without("rmsprop", {});
  for (float g : {0.3F, -0.7F, 1.1F, 0.01F}) {
    with.run(g, g / 3);
    without.run(g, g / 3);
    CHECK(with.array("weight") == without.array("weight"));
  }
  CHECK(with.array("momentum_buffer")[0][0] == 0);
}

TEST_CASE("torch profiles average weights as AveragedModel: copied first, bad steps too") {
  RecipeOptions o{.check = true, .ema = true, .profile = Profile::torch_fused};
  Rig rig("sgd", o);
  rig.set("lr", 0.5);
  rig.set("ema_decay", 0.75);
  rig.run(kInf);  // bad, but the first update copies nonetheless
  rig.array("ema")[0][0] = 3;
  CHECK(rig.state("n_averaged") == 1);
  rig.run(kInf);
  CHECK(rig.array("ema")[0][0] == 2.5F);  // 3 + 0.25 * (1 - 3)
  rig.run(1);
  CHECK(rig.array("weight")[0][0] == 0.5F);
  CHECK(rig.array("ema")[0][0] == 2);  // 2.5 + 0.25 * (0.5 - 2.5)
  Rig fresh("sgd", o);
  fresh.set("lr", 0.5);
  fresh.run(1);
  CHECK(fresh.array("ema")[0][0] == 0.5F);
}

TEST_CASE("zclip clips norms that are unusual against their moving mean and variance") {
  Rig rig("sgd", {.clip = Clip::zclip});
  std::vector<double> first;
  double mean = 0, variance = 0;
  auto near = [](double x) { return doctest::Approx(x).epsilon(1e-5); };
  for (int i = 0; i < 60; ++i) {
    double g = i == 40 ? kInf : (0.1 + 0.01 * (i * 7 % 5)) * (i == 30 || i == 50 ? 20 : 1);
    rig.run(static_cast<float>(g));
    double norm = g * std::sqrt(10.0);
    if (i == 40) {  // a bad step does not change the averages
      CHECK(rig.state("skipped") == 1);
    } else if (first.size() < 25) {
      CHECK(rig.state("clip_coef") == near(std::min(1.0, 1 / norm)));
      first.push_back(norm);
      mean = 0;
      for (double x : first) mean += x / static_cast<double>(first.size());
      variance = 0;
      for (double x : first)
        variance += (x - mean) * (x - mean) / static_cast<double>(first.size());
    } else {
      double deviation = std::sqrt(variance);
      double z = (norm - mean) / deviation;
      bool unusual = z > 2.5;
      CHECK(unusual == (i == 30 || i == 50));
      double target = unusual ? mean + 2.5 * deviation * 2.5 / z : norm;
      CHECK(rig.state("clip_coef") == near(target / norm));
      mean = 0.97 * mean + 0.03 * target;
      variance = 0.97 * variance + 0.03 * (target - mean) * (target - mean);
    }
    CHECK(rig.state("clip_mean") == near(mean));
    CHECK(rig.state("clip_variance") == doctest::Approx(variance).epsilon(1e-4));
  }
  CHECK(rig.state("clip_count") == 59);
}

TEST_CASE("adagc clips each tensor by the moving average of its own norm") {
  Rig rig("sgd", {.clip = Clip::adagc});
  rig.set("clip_warmup", 5);
  double average[2] = {1e300, 1e300};
  double weight[2] = {1, 1};  // of the first elements
  for (int i = 0; i < 40; ++i) {
    double g = 0.2 + 0.02 * (i % 3);
    double special = i == 20 ? 9 : g;  // only in the second tensor
    rig.run(static_cast<float>(g), static_cast<float>(special));
    double norms[2] = {g * std::sqrt(5.0), std::sqrt(4 * g * g + special * special)};
    double all = std::sqrt(norms[0] * norms[0] + norms[1] * norms[1]);
    for (size_t t = 0; t < 2; ++t) {
      double coefficient =
          i < 5 ? std::min(1.0, 1 / all) : std::min(1.0, 1.05 * average[t] / norms[t]);
      if (i == 20) CHECK((coefficient < 0.5) == (t == 1));
      double clipped = coefficient * norms[t];
      average[t] = i < 5 ? std::min(average[t], clipped) : 0.98 * average[t] + 0.02 * clipped;
      CHECK(rig.state("clip_average", t) == doctest::Approx(average[t]).epsilon(1e-5));
      CHECK(rig.state("clip_coef", t) == doctest::Approx(coefficient).epsilon(1e-5));
      weight[t] -= 0.001 * coefficient * (t == 0 ? g : special);
      CHECK(static_cast<double>(rig.array("weight")[t][0]) ==
            doctest::Approx(weight[t]).epsilon(1e-5));
    }
  }
}
