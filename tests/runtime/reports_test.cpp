// Per-group and per-tensor reports: in statistics, their history, JSON and the monitor.
#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/monitor.hpp>

using namespace stepfuse;

namespace {

// One step over three tensors in two groups, with gradients 3, 4 and 12.
struct Grouped {
  std::vector<float> weight = std::vector<float>(4, 1), grad = {3, 4, 12, 1};
  Step step;
  explicit Grouped(Program program, const Device& device) : step(make(program, device)) { bind(3); }
  static Step make(const Program& program, const Device& device) {
    Layout layout;
    layout.add({.elements = 1}).add({.elements = 1}).add({.elements = 1, .group = 1});
    return Step(program, layout, device, {.stats_ring = 4});
  }
  static std::vector<void*> pointers(std::vector<float>& values, size_t n) {
    std::vector<void*> out;
    for (size_t i = 0; i < n; ++i) out.push_back(&values[i]);
    return out;
  }
  void bind(size_t tensors) {
    step.prepare();
    step.bind_raw("weight", pointers(weight, tensors));
  }
  StepStats run(size_t tensors = 3) {
    step.run(pointers(grad, tensors), step.make_args());
    return *step.latest();
  }
};

Program per_tensor() {
  return parse(R"(step @largest {
    buffer @grad : f32 in
    buffer @weight : f32 inout
    report @largest : <f32>
    report @all : f32
    %g = load @grad : [f32]
    %w = load @weight : [f32]
    %m = reduce_max %g : <f32>
    %a = reduce_max %g : f32
    %n = add %w, %m : [f32]
    store @weight, %n
    write @largest, %m
    write @all, %a
  })");
}

}  // namespace

TEST_CASE("reports of groups stand in the statistics, in JSON and in the monitor") {
  for (const Device& device : {Device::interpreter(), Device::cpu(1)}) {
    Grouped g(make_recipe("sgd", {.clip = Clip::l2, .clip_per_group = true}), device);
    StepStats stats = g.run();
    CHECK(stats.at("grad_norm", Group{0}) == 5);
    CHECK(stats.at("grad_norm", Group{1}) == 12);
    CHECK(stats.at("found_inf") == 0);
    CHECK(stats.at("found_inf", Group{3}) == 0);  // a per-step report has one value for all
    CHECK_THROWS_WITH_AS(stats.at("grad_norm"), doctest::Contains("at(\"grad_norm\", Group{0})"),
                         Error);
    CHECK_THROWS_WITH_AS(stats.at("grad_norm", Group{2}), doctest::Contains("there is no 2"),
                         Error);
    CHECK_THROWS_WITH_AS(stats.at("norm"), doctest::Contains("found_inf"), Error);
    CHECK(to_json_line(stats).find(R"("grad_norm":[5,12])") != std::string::npos);

    Monitor monitor;
    std::string told;
    auto note = [&](const Finding& f) { told += f.rule.name + " "; };
    monitor.add(norm_near(12, 0.9, 1), note);
    monitor.add(norm_near(20, 0.9, 1), note);
    monitor.add(never_clipped(1), note);
    monitor.feed(g.step);
    CHECK(told == "norm_above_0.9_of_12 ");
    g.grad[0] = std::nanf("");
    stats = g.run();
    CHECK(to_json_line(stats).find(R"("grad_norm":["nan",12])") != std::string::npos);
  }
}

TEST_CASE("reports of tensors stand in the statistics, also after append()") {
  for (const Device& device : {Device::interpreter(), Device::cpu(1)}) {
    Grouped g(per_tensor(), device);
    StepStats stats = g.run();
    REQUIRE(stats.find_list("largest") != nullptr);
    CHECK(*stats.find_list("largest") == std::vector<double>{3, 4, 12});
    CHECK(stats.at("all") == 12);
    g.grad = {5, 6, 7, 8};
    g.run();
    REQUIRE(g.step.history().size() == 2);
    CHECK(g.step.history()[0].at("largest", Tensor{2}) == 12);
    CHECK(g.step.history()[1].at("largest", Tensor{2}) == 7);
    g.step.append({.elements = 1});
    g.bind(4);
    CHECK(g.step.history().empty());  // a record of three tensors does not fit four
    stats = g.run(4);
    CHECK(*stats.find_list("largest") == std::vector<double>{5, 6, 7, 8});
    CHECK(stats.index == 2);
  }
}
