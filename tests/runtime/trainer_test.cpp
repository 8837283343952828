// The public header as a trainer uses it: two optimizers on one loss scale, gradients that move or
// are missing, changing hyperparameters, a parameter that is added later, a restart.
#include <cmath>
#include <map>
#include <memory>
#include <thread>

#include <doctest/doctest.h>

#include <stepfuse/ir.hpp>
#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/runtime/trainer_model.hpp"

using namespace stepfuse;
using stepfuse::testing::counts;
using stepfuse::testing::TrainerModel;

namespace {

constexpr int kSteps = 14;
constexpr int kAppendAt = 6;
constexpr int kBadCritic = 4, kBadActor = 9;  // steps with an infinity in a gradient

Program program(std::string_view name, ScaleRole role) {
  RecipeOptions options;
  options.grad = DType::f16;
  options.master = true;
  options.loss_scale = LossScale::dynamic;
  options.scale_role = role;
  options.clip = Clip::l2;
  return make_recipe(name, options);
}

// Counts allocations and frees.
struct CountingAllocator {
  size_t held = 0, calls = 0;
  Allocator allocator() {
    return {[this](size_t bytes, Stream) {
              held += bytes;
              ++calls;
              return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
            },
            [this](void* memory, size_t bytes, Stream) {
              held -= bytes;
              std::free(memory);
            }};
  }
};

// An actor and a critic that share a loss scale; the critic's step is the last and updates it.
struct Trainer {
  CountingAllocator memory;
  LossScaler scaler{{.init_scale = 1024, .growth_interval = 3}};
  TrainerModel actor{11}, critic{22};
  std::unique_ptr<Step> actor_step, critic_step;

  Trainer(const Device& device, Form form) {
    actor.add(5000, 0);
    actor.add(70, 1);
    actor.add(20000, 0);
    critic.add(333, 0);
    critic.add(1, 1);
    StepOptions options{.form = form, .scaler = &scaler, .allocator = memory.allocator()};
    actor_step = std::make_unique<Step>(program("adamw", ScaleRole::member), actor.layout(), device,
                                        options);
    critic_step =
        std::make_unique<Step>(program("adam", ScaleRole::last), critic.layout(), device, options);
    for (auto [model, step] : {std::pair{&actor, actor_step.get()}, {&critic, critic_step.get()}}) {
      step->prepare();
      model->bind(*step);
      step->init_state();
    }
  }

  static Args args_of(const Step& step, int i) {
    Args args = step.make_args();
    ArgId lr = step.arg("lr");
    args.set(lr, Group{0}, 0.01 / (1 + i));
    args.set(lr, Group{1}, 0.02 * (i % 3));
    args.set("beta1", Group{0}, 0.9 - 0.01 * i);
    args.set("beta1", Group{1}, 0.8);
    args.set("beta2", 0.999 - 0.0001 * i);
    args.set("max_norm", 0.5 + 0.1 * i);
    return args;
  }

  void step(int i) {
    if (i == kAppendAt) {
      actor.add(4097, 1);
      actor_step->append(actor.spec(3));
      actor_step->prepare();
      actor.bind(*actor_step);
      auto before = actor.tensors();
      actor_step->init_tensors(Tensor{3});  // the other tensors stay unchanged
      CHECK(actor.tensors()[3].exp_avg == std::vector<float>(4097));
      CHECK(std::equal(before.begin(), before.end() - 1, actor.tensors().begin()));
    }
    int missing = i % 3 == 2 ? 1 : -1;
    auto a = actor.gradients(i, missing, i == kBadActor ? 2 : -1);
    auto c = critic.gradients(i, -1, i == kBadCritic ? 0 : -1);
    actor_step->run(a, args_of(*actor_step, i));
    critic_step->run(c, args_of(*critic_step, i));
  }

  std::string digest() const { return actor.digest(*actor_step) + critic.digest(*critic_step); }
};

// The devices for the steps; without LLVM only the interpreter, with a message.
std::vector<Device> devices() {
  std::vector<Device> all = {Device::interpreter()};
  if (llvm_status().available) {
    all.push_back(Device::cpu(1));
    all.push_back(Device::cpu(2));
  } else {
    MESSAGE("CPU skipped: ", llvm_status().problem);
  }
  return all;
}

// Loss scales before each step by the rule: half after an overflow, double after 3 good steps.
std::vector<double> expected_scales() {
  std::vector<double> out;
  double scale = 1024;
  int good = 0;
  for (int i = 0; i < kSteps; ++i) {
    out.push_back(scale);
    if (i == kBadActor || i == kBadCritic) {
      scale /= 2;
      good = 0;
    } else if (++good == 3) {
      scale *= 2;
      good = 0;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("a training with everything that moves") {
  std::map<std::string, std::string> digests;
  for (const Device& device : devices()) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      Trainer t(device, form);
      std::vector<double> scales = expected_scales();
      for (int i = 0; i < kSteps; ++i) {
        CHECK(*t.scaler.device_scale() == static_cast<float>(scales[static_cast<size_t>(i)]));
        if (i == kAppendAt) {
          CHECK(counts(*t.actor_step, "step") == std::vector<int64_t>{6, 4, 6});
        }
        t.step(i);
        if (i == kAppendAt) {
          CHECK(counts(*t.actor_step, "step") == std::vector<int64_t>{7, 5, 7, 1});
        }

        StepStats a = t.actor_step->latest().value();
        StepStats c = t.critic_step->latest().value();
        CHECK(a.index == static_cast<uint64_t>(i));
        CHECK(a.at("skipped") == (i == kBadActor));
        CHECK(c.at("skipped") == (i == kBadCritic));
        CHECK(a.at("loss_scale") == scales[static_cast<size_t>(i)]);
        CHECK(std::isfinite(a.at("grad_norm")) == (i != kBadActor));
        CHECK((a.at("clip_coef") == 0) == (i == kBadActor));
      }
      // A skipped step counts nowhere; tensor 1 had no gradient in steps 2, 5, 8 and 11.
      CHECK(counts(*t.actor_step, "step") == std::vector<int64_t>{13, 9, 13, 7});
      CHECK(counts(*t.critic_step, "step") == std::vector<int64_t>{13, 13});
      digests[t.digest()] += std::to_string(static_cast<int>(device.kind())) + "/" +
                             std::to_string(static_cast<int>(form)) + " ";
    }
  }
  std::string who;
  for (const auto& [digest, runs] : digests) who += digest + ": " + runs + "\n";
  CHECK_MESSAGE(digests.size() == 1, who);
}

TEST_CASE("states written back resume the training bit for bit") {
  for (const Device& device : devices()) {
    Trainer t(device, Form::fused);
    for (int i = 0; i < kAppendAt + 2; ++i) t.step(i);

    struct Saved {
      std::vector<TrainerModel::Tensor> arrays;
      std::map<std::string, std::vector<Bits>> states;
    };
    auto save = [](const TrainerModel& model, const Step& step) {
      Saved s{model.tensors(), {}};
      for (const State& state : step.program().states) {
        if (!state.shared && !state.report) s.states[state.name] = step.read_state(state.name);
      }
      return s;
    };
    Saved actor = save(t.actor, *t.actor_step), critic = save(t.critic, *t.critic_step);
    std::map<std::string, double> scaler;
    for (const char* name : {"scale", "growth_tracker"}) scaler[name] = t.scaler.read(name);

    for (int i = kAppendAt + 2; i < kSteps; ++i) t.step(i);
    std::string uninterrupted = t.digest();

    auto load = [](Saved s, TrainerModel& model, Step& step) {
      model.restore(std::move(s.arrays));
      for (const auto& [name, values] : s.states) step.write_state(name, values);
    };
    load(actor, t.actor, *t.actor_step);
    load(critic, t.critic, *t.critic_step);
    CHECK(t.digest() != uninterrupted);
    for (const auto& [name, value] : scaler) t.scaler.write(name, value);
    for (int i = kAppendAt + 2; i < kSteps; ++i) t.step(i);
    CHECK(t.digest() == uninterrupted);
  }
}

TEST_CASE("one compile for each step, whatever changes") {
  if (devices().size() == 1) return;
  CacheStats start = cache_stats();
  Trainer t(Device::cpu(), Form::fused);
  CacheStats prepared = cache_stats();
  bool seen = t.actor_step->compile_report().from_memory_cache;  // by an earlier test case
  CHECK(t.critic_step->compile_report().from_memory_cache == seen);
  // Two steps and their init_state() programs; the arrays are the same, so that is one program.
  CHECK(prepared.compiled - start.compiled == (seen ? 0 : 3));
  CHECK(t.actor_step->compile_report().key != t.critic_step->compile_report().key);

  for (int i = 0; i < kSteps; ++i) t.step(i);
  CHECK(cache_stats().compiled == prepared.compiled);
  CHECK(t.actor_step->compile_report().from_memory_cache);  // prepare() after append()

  Trainer again(Device::cpu(), Form::fused);
  CHECK(again.actor_step->compile_report().from_memory_cache);
  CHECK(cache_stats().compiled == prepared.compiled);
}

TEST_CASE("the step's memory is known beforehand and the caller's") {
  CountingAllocator memory;
  LossScaler scaler;
  TrainerModel model(1);
  model.add(100000, 0);
  model.add(3, 1);
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    StepOptions options{.form = form, .scaler = &scaler, .allocator = memory.allocator()};
    Program p = program("adamw", ScaleRole::owner);
    size_t expected = Step::workspace_bytes(p, model.layout(), options);
    {
      Step step(p, model.layout(), devices().back(), options);
      CHECK(step.workspace_bytes() == expected);
      CHECK(memory.held == expected);
      step.append({.name = "late", .elements = 1000000});
      CHECK(memory.held == step.workspace_bytes());
      CHECK(memory.held > expected);
    }
    CHECK(memory.held == 0);
  }
  CHECK(memory.calls == 6);

  StepOptions empty{.scaler = &scaler, .allocator = {[](size_t, Stream) { return nullptr; }, {}}};
  CHECK_THROWS_AS(Step(program("adamw", ScaleRole::owner), model.layout(), devices().back(), empty),
                  Error);
}

TEST_CASE("two threads run two steps at once") {
  auto train = [](uint64_t seed, Form form) {
    LossScaler scaler({.init_scale = 256, .growth_interval = 5});
    TrainerModel model(seed);
    model.add(200000, 0);
    model.add(1000, 1);
    Step step(program("adamw", ScaleRole::owner), model.layout(), devices().back(),
              {.form = form, .scaler = &scaler});
    step.prepare();
    model.bind(step);
    step.init_state();
    for (int i = 0; i < 20; ++i) {
      step.run(model.gradients(i, -1, i % 7 == 6 ? 0 : -1), Trainer::args_of(step, i));
    }
    return model.digest(step);
  };
  std::string alone[] = {train(1, Form::fused), train(2, Form::unfused)};
  std::string together[2];
  std::thread a([&] { together[0] = train(1, Form::fused); });
  std::thread b([&] { together[1] = train(2, Form::unfused); });
  a.join();
  b.join();
  CHECK(together[0] == alone[0]);
  CHECK(together[1] == alone[1]);
  CHECK(alone[0] != alone[1]);
}

TEST_CASE("a scale that several optimizers only vote on is updated by a step of its own") {
  for (const Device& device : devices()) {
    std::vector<double> scales;
    LossScaler scaler({.init_scale = 1024, .growth_interval = 3});
    TrainerModel model(5);
    model.add(600, 0);
    model.add(30, 1);
    Step step(program("adamw", ScaleRole::member), model.layout(), device, {.scaler = &scaler});
    RecipeOptions options{.loss_scale = LossScale::dynamic};
    Step update(make_recipe("loss_scale_update", options), Layout{}, device,
                {.scaler = &scaler, .gradient = ""});
    for (Step* s : {&step, &update}) s->prepare();
    model.bind(step);
    step.init_state();
    Args update_args = update.make_args();
    for (int i = 0; i < kSteps; ++i) {
      bool bad = i == kBadActor || i == kBadCritic;
      step.run(model.gradients(i, -1, bad ? 0 : -1), Trainer::args_of(step, i));
      scales.push_back(*scaler.device_scale());
      update.run({}, update_args);
    }
    CHECK(scales == expected_scales());
  }
}
