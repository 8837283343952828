// Arguments of tensors, and tensors that move to another group: data, never compiled in.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/grouped_step.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const std::vector<int> kGroups = {0, 1, 0, 1};

}  // namespace

TEST_CASE("scales of 1 change no bit, and one of a tensor is its alone") {
  std::vector<float> scaled;
  for (const Device& device : {Device::interpreter(), Device::cpu(1)}) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      GroupedStep plain(device, kGroups, false, form), ones(device, kGroups, true, form);
      plain.run(0);
      ones.run(0);
      CHECK(ones.weights() == plain.weights());

      // Tensor 2 as with half of its group's rate and no decay; the others as before.
      CacheStats before = cache_stats();
      ones.args->set("lr_scale", Tensor{2}, 0.5);
      ones.args->set(ones.step().arg("weight_decay_scale"), Tensor{2}, 0);
      CHECK(ones.args->get(ones.step().arg("lr_scale"), Tensor{2}) == 0.5);
      CHECK(ones.args->get(ones.step().arg("lr_scale"), Tensor{1}) == 1);
      ones.run(1);
      CHECK(cache_stats().compiled == before.compiled);
      if (scaled.empty()) scaled = ones.weights();
      CHECK(ones.weights() == scaled);

      GroupedStep halved(device, kGroups, false, form);
      halved.run(0);
      halved.args->set("lr", 0.05);
      halved.args->set("weight_decay", 0);
      halved.run(1);
      plain.run(1);
      std::vector<float> all = ones.weights(), own = halved.weights(), others = plain.weights();
      for (size_t i = 0; i < 20070; ++i) {
        bool of_tensor = i >= 20003 && i < 20053;
        REQUIRE(all[i] == (of_tensor ? own : others)[i]);
      }
    }
  }
}

TEST_CASE("a tensor moves to another group without a new step") {
  for (const Device& device : {Device::interpreter(), Device::cpu(1)}) {
    for (Form form : {Form::fused, Form::unfused}) {
      GroupedStep moved(device, kGroups, true, form), other(device, {0, 1, 1, 0}, true, form);
      CacheStats before = cache_stats();
      moved.step().set_group(Tensor{3}, Group{0});
      moved.step().set_group(Tensor{2}, Group{1});
      for (int i = 0; i < 3; ++i) {
        moved.run(i);
        other.run(i);
      }
      CHECK(moved.weights() == other.weights());
      CHECK(moved.step().layout().tensors()[2].group == 1);
      moved.step().set_group(Tensor{2}, Group{0});
      moved.run(3);
      other.run(3);
      CHECK(moved.weights() != other.weights());
      CHECK(moved.step().stats()->index == 3);
      CHECK(cache_stats().compiled == before.compiled);
    }
  }
}

TEST_CASE("what is no tensor, group or scale is refused") {
  GroupedStep s(Device::interpreter(), kGroups);
  CHECK(message_of([&] { s.step().set_group(Tensor{4}, Group{0}); }) ==
        "tensor 4 does not exist: the layout has 4 tensors (0 to 3)");
  CHECK(has(message_of([&] { s.step().set_group(Tensor{0}, Group{2}); }), "reserve_groups"));
  CHECK(has(message_of([] { Layout().add({"a", 8}).set_group(Tensor{0}, Group{3}); }),
            "group 3 does not exist: the layout has 1 group (0); make room with"));
  CHECK(message_of([&] { s.args->set("lr_scale", Tensor{4}, 1); }) ==
        "tensor 4 does not exist: the layout has 4 tensors (0 to 3)");
  CHECK(message_of([&] { s.args->set("lr", Group{2}, 1); }) ==
        "group 2 does not exist: the layout has 2 groups (0 to 1)");
  CHECK(has(message_of([&] { s.args->set("lr_scale", Tensor{0}, -1); }), "at least 0"));
  CHECK(has(message_of([&] { make_recipe("sgd", {.per_tensor = {"lf"}}); }),
            "sgd has no such hyperparameter; did you mean 'lr'?"));
  CHECK(has(message_of([&] { make_recipe("sgd", {.per_tensor = {"lr", "lr"}}); }),
            "there is an argument 'lr_scale' already"));
  CHECK(has(message_of([&] { Layout().reserve_groups(0); }), "0 groups are not"));
}

TEST_CASE("tied tensors stay in one group") {
  Program p = parse(
      "step @s {\n  buffer @grad : f32 in\n  buffer @w : f32 inout\n  arg %lr : {f32}\n"
      "  %g = load @grad : [f32]\n  %x = load @w : [f32]\n  %d = mul %g, %lr : [f32]\n"
      "  %y = sub %x, %d : [f32]\n  store @w, %y\n}\n");
  Layout layout;
  layout.reserve_groups(2).add({.elements = 2}).add({.elements = 2});
  Step step(p, layout, Device::interpreter());
  step.prepare();
  std::vector<float> memory = {1, 2, 3, 4};
  std::vector<float*> tied = {memory.data(), memory.data()}, grads = {&memory[2], &memory[2]};
  step.bind_raw("w", tied);
  step.adopt_state();
  step.run(grads, step.make_args());
  step.set_group(Tensor{1}, Group{1});
  CHECK(has(message_of([&] { step.run(grads, step.make_args()); }), "their groups differ"));
  step.set_group(Tensor{0}, Group{1});
  step.run(grads, step.make_args());
}
