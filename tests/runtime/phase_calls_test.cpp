// observe(), reduce() and run() in every order: a run gives the same result as a run alone with the
// same gradients. Knows the public API.
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"

using namespace stepfuse;

namespace {

constexpr size_t kTensors = 3;

struct Clipped {
  std::vector<float> weight = {1, 2, 3}, moved = weight, grad = {3, 4, 12}, other = {6, 2, 9};
  Step step;
  Args args;

  explicit Clipped(const Device& device)
      : step(make_recipe("sgd", {.clip = Clip::l2, .clip_per_group = true}), layout(), device,
             {.observe = true}),
        args(step.make_args()) {
    step.prepare();
    step.bind_raw("weight", pointers(weight));
    args.set("lr", 1);
    args.set("max_norm", 1);
  }
  static Layout layout() {
    Layout out;
    for (size_t t = 0; t < kTensors; ++t) out.add({.elements = 1});
    out.reserve_groups(2);
    return out;
  }
  static std::vector<float*> pointers(std::vector<float>& values) {
    std::vector<float*> out;
    for (float& v : values) out.push_back(&v);
    return out;
  }
  // The calls are g: set_group, b: bind new weights, p: prepare, o and O: observe the first tensor
  // or all, r: reduce, x: run. R, X and A use a second set of gradients.
  void call(char what) {
    switch (what) {
      case 'g':
        return step.set_group(Tensor{0}, Group{1});
      case 'b':
        return step.bind_raw("weight", pointers(moved));
      case 'p':
        return step.prepare();
      case 'o':
        return step.observe(Tensor{0}, std::vector<float*>{grad.data()}, args);
      case 'O':
        return step.observe(Tensor{0}, pointers(grad), args);
      case 'A':
        return step.observe(Tensor{0}, pointers(other), args);
      case 'r':
        return step.reduce(pointers(grad), args);
      case 'R':
        return step.reduce(pointers(other), args);
      case 'x':
        return step.run(pointers(grad), args);
      default:
        return step.run(pointers(other), args);
    }
  }
};

// The results of the runs in `calls` without the other calls.
std::vector<float> expected(const Device& device, const std::string& calls) {
  Clipped c(device);
  for (char what : calls) {
    if (what == 'x' || what == 'X') c.call(what);
  }
  return c.weight;
}

}  // namespace

TEST_CASE("observe, reduce and run in a row, again and again, and with other gradients meanwhile") {
  std::vector<Device> devices = {Device::interpreter()};
  if (llvm_status().available) devices.push_back(Device::cpu(1));
  for (const Device& device : devices) {
    for (const std::string calls :
         {"x",    "rx",       "ox",  "orx",   "Orx",    "rox", "rOx", "oorx", "rrx",
          "rxrx", "oxx",      "rxx", "roxrx", "xrxRXx", "rX",  "oX",  "OX",   "rxX",
          "ORxX", "oxoxOxrx", "AX",  "OAX",   "RAX",    "rAX", "AOx", "RoOx", "rxAX"}) {
      CAPTURE(calls);
      Clipped c(device);
      bool refused = false;
      try {
        for (char what : calls) c.call(what);
      } catch (const Error& e) {
        // Gradients that were read must not move before the run; the refused run has no effect.
        refused = std::string(e.what()).find("moved after") != std::string::npos;
        CHECK(refused);
      }
      if (!refused) CHECK(c.weight == expected(device, calls));
      CHECK(refused == ((calls == "ORxX" || calls == "rX" || calls == "oX" || calls == "OX")));
    }
  }
}

TEST_CASE("what reduce() left is not used after set_group(), bind(), prepare() or append()") {
  std::vector<Device> devices = {Device::interpreter()};
  if (llvm_status().available) devices.push_back(Device::cpu(1));
  for (const Device& device : devices) {
    for (char change : {'g', 'b', 'p'}) {
      CAPTURE(change);
      // The same change before and after reading gradients gives the same weights.
      Clipped want(device), observed(device), reduced(device);
      for (char what : {change, 'x'}) want.call(what);
      for (char what : {'o', change, 'x'}) observed.call(what);
      CHECK(observed.weight == want.weight);
      CHECK(observed.moved == want.moved);

      reduced.call('r');
      reduced.call(change);
      for (int again = 0; again < 2; ++again) {
        CHECK_THROWS_WITH_AS(reduced.call('x'), doctest::Contains("call reduce() again"), Error);
      }
      CHECK(reduced.weight == std::vector<float>{1, 2, 3});
      for (char what : {'r', 'x'}) reduced.call(what);
      CHECK(reduced.weight == want.weight);
      CHECK(reduced.moved == want.moved);
    }
    Clipped appended(device);
    appended.call('r');
    appended.step.append({.elements = 0});
    appended.step.prepare();
    appended.step.bind_raw("weight", std::vector<float*>{&appended.weight[0], &appended.weight[1],
                                                         &appended.weight[2], nullptr});
    std::vector<float*> grads = Clipped::pointers(appended.grad);
    grads.push_back(nullptr);
    CHECK_THROWS_WITH_AS(appended.step.run(grads, appended.step.make_args()),
                         doctest::Contains("call reduce() again"), Error);
  }
}

TEST_CASE("a count of elements beyond 2^31 is no negative number") {
  std::vector<Device> devices = {Device::interpreter()};
  if (llvm_status().available) devices.push_back(Device::cpu(1));
  Program program =
      make_recipe(parse_optimizer("optimizer o \"\" { w = g * 0 + f32(mean(g > 0, tensor)) }"));
  for (const Device& device : devices) {
    Layout layout;
    layout.add({.elements = 4});
    Step step(program, layout, device, {.observe = true});
    step.prepare();
    std::vector<float> weight(4), grad(4, 1);
    step.bind_raw("weight", std::vector<float*>{weight.data()});
    step.adopt_state();
    for (uint32_t count : {4U, 1U << 31, 3U << 30}) {
      step.reduce(std::vector<float*>{grad.data()}, step.make_args());
      Partials partials = step.partials();
      REQUIRE(partials.all.size() == 1);
      REQUIRE(partials.all[0].dtype == DType::i32);
      // The sum that a tensor with that many elements would have left.
      std::memcpy(static_cast<char*>(partials.block) + partials.all[0].offset, &count,
                  sizeof count);
      step.run(std::vector<float*>{grad.data()}, step.make_args());
      CHECK(weight[0] == static_cast<float>(count) / 4);
    }
  }
}

TEST_CASE("a gradient that moved between reading and use is named") {
  for (bool all : {false, true}) {
    Clipped c(Device::interpreter());
    c.call(all ? 'r' : 'O');
    std::vector<float*> moved = Clipped::pointers(c.grad);
    moved[2] = &c.other[2];
    CHECK_THROWS_WITH_AS(c.step.run(moved, c.args),
                         all ? "the gradient of tensor 2 moved after reduce()"
                             : "the gradient of tensor 2 moved after observe()",
                         Error);
    c.call('x');
    CHECK(c.weight == expected(Device::interpreter(), "x"));
  }
}
