// Tensors given twice: which those are, whose gradient they have, and what rebinding makes of them.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;

namespace {

constexpr const char* kClipped = R"(step @clipped {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  %g = load @grad : [f32]
  %w = load @weight : [f32]
  %sum = reduce_add %g : f32
  %d = mul %g, %sum : [f32]
  %w1 = sub %w, %d : [f32]
  store @weight, %w1
  report @total : f32
  write @total, %sum
})";

// Three tensors of one element, whose gradients are 1, 10 and 100.
struct Fixture {
  std::vector<float> weights = std::vector<float>(3, 1000.0F);
  std::vector<float> g = {1, 10, 100};
  Step step;

  explicit Fixture(const Device& device = Device::cpu(1)) : step(make(device)) { step.prepare(); }
  static Step make(const Device& device) {
    Layout layout;
    for (int i = 0; i < 3; ++i) layout.add({.elements = 1});
    return Step(parse(kClipped), layout, device, {.observe = true});
  }
  void bind(const std::vector<size_t>& which) {
    std::vector<void*> pointers;
    for (size_t i : which) pointers.push_back(&weights[i]);
    step.bind_raw("weight", pointers);
  }
  std::vector<void*> gradients(const std::vector<int>& which) {
    std::vector<void*> out;
    for (int i : which) out.push_back(i < 0 ? nullptr : &g[static_cast<size_t>(i)]);
    return out;
  }
  double run(const std::vector<int>& which) {
    step.run(gradients(which), step.make_args());
    return step.latest()->at("total");
  }
  void observe(size_t first, const std::vector<int>& which) {
    step.observe(Tensor{first}, gradients(which), step.make_args());
  }
};

}  // namespace

TEST_CASE("tensors that lack all arrays of a step are not tied") {
  Layout layout;
  layout.add({.name = "a", .elements = 2}).add({.name = "b", .elements = 2});
  Step step(parse(R"(step @totals {
  buffer @grad : f32 in
  buffer @large : f32 inout = 0 from 4096
  %g = load @grad : [f32]
  store @large, %g
  %sum = reduce_add %g : f32
  report @total : f32
  write @total, %sum
})"),
            layout, Device::interpreter());
  step.bind_raw("large", std::vector<void*>(2));
  step.prepare();
  step.init_state();
  std::vector<float> a = {1, 2}, b = {10, 20};
  for (std::vector<void*> gradients :
       {std::vector<void*>{a.data(), b.data()}, {a.data(), a.data()}}) {
    step.run(gradients, step.make_args());
    CHECK(step.latest()->at("total") == (gradients[0] == gradients[1] ? 6 : 33));
  }
}

TEST_CASE("tied: bound apart, together, and apart again with the first gradients") {
  Fixture f;
  f.bind({0, 1, 2});
  CHECK(f.run({0, 1, 2}) == 111);
  f.bind({0, 0, 2});
  CHECK(f.run({0, 0, 2}) == 101);
  f.bind({0, 1, 2});
  f.weights.assign(3, 0);
  CHECK(f.run({0, 1, 2}) == 111);
  CHECK(f.weights == std::vector<float>{-111, -1110, -11100});
}

TEST_CASE("tied: the gradient of whichever has one; two must be the same") {
  for (const Device& device : {Device::cpu(1), Device::interpreter()}) {
    Fixture f(device);
    f.bind({0, 0, 0});
    CHECK(f.run({-1, 1, -1}) == 10);
    CHECK(f.run({-1, -1, 1}) == 10);
    CHECK(f.run({1, -1, 1}) == 10);
    CHECK(f.run({2, -1, -1}) == 100);
    CHECK(f.run({-1, -1, -1}) == 0);
    CHECK_THROWS_WITH_AS(f.run({-1, 1, 2}), doctest::Contains("their gradients differ"), Error);
    CHECK(f.weights[0] == 1000.0F - 300 - 10000);
  }
}

TEST_CASE("tied: observe() and reduce() of tied tensors, in any order") {
  for (const Device& device : {Device::cpu(1), Device::interpreter()}) {
    Fixture f(device);
    f.bind({0, 0, 2});
    Args args = f.step.make_args();
    f.step.reduce(f.gradients({0, 0, 2}), args);
    CHECK(f.run({0, 0, 2}) == 101);
    f.step.reduce(f.gradients({-1, 0, 2}), args);
    CHECK(f.run({0, -1, 2}) == 101);
    f.observe(0, {0});
    f.observe(1, {0});
    CHECK(f.run({0, 0, 2}) == 101);
    f.observe(0, {-1});
    f.observe(1, {1});
    CHECK(f.run({-1, 1, 2}) == 110);
    f.observe(1, {2});  // before its original, with another gradient than last time
    f.observe(0, {-1});
    CHECK(f.run({-1, 2, 2}) == 200);
    f.observe(0, {0, 0});
    CHECK_THROWS_WITH_AS(f.run({1, 1, 2}), doctest::Contains("moved after observe()"), Error);
    CHECK(f.run({0, 0, 2}) == 101);
  }
}

TEST_CASE("observed without a gradient, and given one later") {
  Fixture f;
  f.bind({0, 1, 2});
  f.observe(0, {-1, 1});
  CHECK(f.run({-1, 1, 2}) == 110);
  f.observe(1, {1, 2});  // tensor 0 was absent before
  CHECK(f.run({-1, 1, 2}) == 110);
  f.observe(1, {1, 2});
  CHECK(f.run({0, 1, 2}) == 111);
  f.observe(0, {0, 1, -1});
  CHECK(f.run({0, 1, 2}) == 111);
}

TEST_CASE("tensors that share what is only read are not one") {
  Program masked = parse(R"(step @masked {
    buffer @grad : f32 inout
    buffer @mask : f32 in
    %g = load @grad : [f32]
    %m = load @mask : [f32]
    %gm = mul %g, %m : [f32]
    store @grad, %gm
  })");
  Program sum = parse(R"(step @sum {
    buffer @mask : f32 in
    %m = load @mask : [f32]
    %s = reduce_add %m : f32
    report @total : f32
    write @total, %s
  })");
  Layout layout;
  layout.add({.elements = 1}).add({.elements = 1});
  float mask = 3;
  std::vector<float> g = {1, 2};
  Step step(masked, layout, Device::cpu(1));
  step.prepare();
  step.bind_raw("mask", {{&mask, &mask}});
  step.run({{&g[0], &g[1]}}, step.make_args());
  CHECK(g == std::vector<float>{3, 6});

  Step adder(sum, layout, Device::cpu(1));
  adder.prepare();
  adder.bind_raw("mask", {{&mask, &mask}});
  adder.run({}, adder.make_args());
  CHECK(adder.latest()->at("total") == 6);
}

TEST_CASE("observe() of tensors that there are not") {
  Fixture f;
  f.bind({0, 1, 2});
  for (size_t first : {SIZE_MAX, SIZE_MAX - 1, size_t{3}, size_t{4}}) {
    CHECK_THROWS_WITH_AS(f.observe(first, {0, 1}), doctest::Contains("the layout has 3"), Error);
  }
  CHECK(f.run({0, 1, 2}) == 111);
}

TEST_CASE("tied: one array is not two tensors of different groups") {
  Layout layout;
  layout.add({.name = "in", .elements = 1}).add({.name = "out", .elements = 1, .group = 1});
  Step step(parse(kClipped), layout, Device::cpu(1));
  step.prepare();
  float weight = 1, grad = 1;
  step.bind_raw("weight", {{&weight, &weight}});
  CHECK_THROWS_WITH_AS(step.run({{&grad, &grad}}, step.make_args()),
                       doctest::Contains("tensors 0 'in' and 1 'out' are the same arrays, but "
                                         "their groups differ"),
                       Error);
}
