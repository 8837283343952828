// The policies of the loss scale against models written from what their owners publish, over random
// runs in which intervals change; and what several steps of one scaler note for its last one.
#include <algorithm>
#include <limits>
#include <random>

#include <doctest/doctest.h>

#include "tests/unit/recipe_rig.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// A scaler on the host.
struct Model {
  LossScale policy;
  bool torch = false;
  double scale = 65536, min_scale = 1;
  int tracker = 0, left = 2;

  void update(bool found, int interval, int hysteresis) {
    bool apex = policy == LossScale::apex, megatron = policy == LossScale::megatron;
    if (found) {
      tracker = 0;
      if (apex || megatron) --left;
      bool lowers = (!apex && !megatron) || left <= 0;
      if (lowers) scale = scale / 2;
      if (lowers && megatron) scale = std::max(scale, min_scale);
      return;
    }
    ++tracker;
    bool due = torch ? tracker == interval : tracker >= interval;
    if (due) {
      scale = scale * 2;
      tracker = 0;
    }
    if (apex || (megatron && due)) left = hysteresis;
  }
};

void run_beside(Model model, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](uint64_t n) { return static_cast<int>(random() % n); };
  RecipeOptions options{.loss_scale = model.policy};
  if (model.torch) options.profile = Profile::torch_foreach;
  Rig rig("sgd", options);
  bool hysteresis = model.policy != LossScale::dynamic;
  int interval = 3, full = 2;
  for (int step = 0; step < 120; ++step) {
    if (below(10) == 0) interval = 1 + below(5);
    if (below(10) == 0) full = 1 + below(3);
    rig.set("growth_interval", interval);
    if (hysteresis) rig.set("hysteresis", full);
    bool found = below(3) == 0;
    rig.run(1, found ? kInf : 1);
    model.update(found, interval, full);
    INFO("seed ", seed, ", step ", step);
    REQUIRE(rig.state("scale") == model.scale);
    REQUIRE(rig.state("growth_tracker") == model.tracker);
    if (hysteresis) REQUIRE(rig.state("hysteresis_tracker") == model.left);
  }
}

}  // namespace

TEST_CASE("each policy does what its owner's scaler does") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    run_beside({.policy = LossScale::dynamic}, seed);
    run_beside({.policy = LossScale::dynamic, .torch = true}, seed);
    run_beside({.policy = LossScale::apex}, seed);
    run_beside({.policy = LossScale::megatron}, seed);
  }
}

TEST_CASE("members of a scaler note what they found, and the last one acts on it and forgets it") {
  Rig member("sgd", {.loss_scale = LossScale::dynamic, .scale_role = ScaleRole::member});
  member.run(1, kInf);
  CHECK(member.state("pending_found_inf") == 1);
  CHECK(member.state("scale") == 65536);
  member.run(1);  // the next member, whose gradients are finite
  CHECK(member.state("pending_found_inf") == 1);

  Rig last("sgd", {.loss_scale = LossScale::dynamic, .scale_role = ScaleRole::last});
  last.set_state("pending_found_inf", 1);
  last.run(1);
  CHECK(last.state("scale") == 32768);
  CHECK(last.state("pending_found_inf") == 0);
  CHECK(last.state("growth_tracker") == 0);
  last.run(1);
  CHECK(last.state("scale") == 32768);
  CHECK(last.state("growth_tracker") == 1);
  last.run(1, kInf);
  CHECK(last.state("scale") == 16384);
}

TEST_CASE("tensors that are not counted are in no norm and in no check") {
  for (Clip clip : {Clip::l1, Clip::l2, Clip::inf}) {
    Rig rig("sgd", {.check = true, .clip = clip, .tensor_flags = true});
    rig.set_state("counted", 0, 1);
    rig.run(2, 100);
    CHECK(rig.state("grad_norm") == doctest::Approx(clip == Clip::l1   ? 10
                                                    : clip == Clip::l2 ? 4.472136
                                                                       : 2));
    rig.run(2, kInf);
    CHECK(rig.state("found_inf") == 0);
    rig.set_state("counted", 1, 1);
    rig.run(2, kInf);
    CHECK(rig.state("found_inf") == 1);
  }
}

TEST_CASE("gradients that were stored in f16 are rounded to it after every multiplication") {
  for (bool rounds : {true, false}) {
    Rig rig("sgd", {.grad = DType::f16, .loss_scale = LossScale::dynamic, .round_grad = rounds});
    rig.set_state("scale", 3);
    rig.set("lr", 1);
    rig.run(1);
    float third = 1 * (1.0F / 3);
    float kept = rounds ? widen(narrow(third, DType::f16), DType::f16) : third;
    CHECK(rig.array("weight")[0][0] == 1 - kept);
  }
}
