// LossScaler::update beside a model of torch.amp.GradScaler, and the two scales that a step reports.
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "runtime/step/internals.hpp"
#include "runtime/step/loss_scaler.hpp"

using namespace stepfuse;

namespace {

// torch.amp.GradScaler with `update(new_scale)`: the tracker is not touched where a scale is given.
struct GradScalerModel {
  float scale = 1024;
  int tracker = 0;
  void update(bool found_inf, int interval) {
    if (found_inf) {
      scale = static_cast<float>(static_cast<double>(scale) * 0.5);
      tracker = 0;
    } else if (++tracker == interval) {
      scale = static_cast<float>(static_cast<double>(scale) * 2.0);
      tracker = 0;
    }
  }
};

struct Trainer {
  static constexpr int kInterval = 5;
  LossScaler scaler{{.init_scale = 1024, .growth_interval = kInterval}};
  std::vector<float> weight = {1};
  float grad = 1;
  Step step;
  explicit Trainer(const RecipeOptions& options) : step(make(options)) {
    step.bind_raw("weight", {weight.data()});
    step.prepare();
  }
  Step make(const RecipeOptions& options) {
    Layout layout;
    layout.add({.elements = 1});
    return Step(make_recipe("sgd", options), layout, Device::interpreter(), {.scaler = &scaler});
  }
  StepStats run(bool overflows) {
    grad = overflows ? std::numeric_limits<float>::infinity() : 1;
    step.run({&grad}, step.make_args());
    return *step.latest();
  }
};

}  // namespace

TEST_CASE("update() replaces that iteration's update of the scale, as torch's does") {
  Trainer t({.loss_scale = LossScale::dynamic, .profile = Profile::torch_fused});
  GradScalerModel model;
  std::mt19937 random(1);
  int replaced = 0;
  for (int i = 0; i < 3000; ++i) {
    bool overflows = random() % 7 == 0;
    StepStats stats = t.run(overflows);
    REQUIRE(stats.at("loss_scale") == model.scale);
    if (random() % 5 == 0) {
      model.scale = static_cast<float>(1 + random() % 4096);
      t.scaler.update(model.scale);
      if (random() % 2 == 0) t.scaler.update(model.scale);  // again is the same
      ++replaced;
    } else {
      model.update(overflows, Trainer::kInterval);
      REQUIRE(stats.at("next_loss_scale") == model.scale);
    }
    REQUIRE(t.scaler.read() == model.scale);
    REQUIRE(t.scaler.read("growth_tracker") == model.tracker);
  }
  CHECK(replaced > 500);
}

TEST_CASE("update() takes hysteresis back too; write() says what is") {
  Trainer t({.loss_scale = LossScale::megatron});
  t.run(true);
  CHECK(t.scaler.read("hysteresis_tracker") == 1);
  t.scaler.update(64);
  CHECK(t.scaler.read("hysteresis_tracker") == 2);
  CHECK(t.scaler.read() == 64);
  t.run(false);
  t.scaler.write("growth_tracker", 3);
  t.scaler.update(128);  // what was written is not the last run's
  CHECK(t.scaler.read("growth_tracker") == 3);
  t.run(false);
  t.scaler.write("scale", 32);
  CHECK(t.scaler.read("growth_tracker") == 4);
}

TEST_CASE("a step reports the scale of its gradients and the next one") {
  Trainer t({.loss_scale = LossScale::dynamic});
  StepStats stats = t.run(true);
  CHECK(stats.at("loss_scale") == 1024);
  CHECK(stats.at("next_loss_scale") == 512);
  CHECK(t.scaler.read() == 512);
  for (int i = 0; i < Trainer::kInterval; ++i) stats = t.run(false);
  CHECK(stats.at("loss_scale") == 512);
  CHECK(stats.at("next_loss_scale") == 1024);
}

TEST_CASE("a process that is forked while a scaler waits is told so, and does not wait for ever") {
  struct Slow : PendingWork {
    std::atomic<bool> waits = false, done = false;
    void wait() override {
      waits = true;
      while (!done) std::this_thread::yield();
    }
  };
  LossScaler scaler;
  auto slow = std::make_shared<Slow>();
  Internals::of(scaler)->serve(slow);
  std::jthread other([&] { Internals::of(scaler)->wait(); });
  while (!slow->waits) std::this_thread::yield();
  pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(20);
    try {
      Internals::of(scaler)->wait();
    } catch (const Error&) {
      ::_exit(0);
    }
    ::_exit(1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  slow->done = true;
  CHECK(status == 0);
}
