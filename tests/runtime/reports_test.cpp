// Per-group and per-tensor reports: in statistics, their history, JSON and the monitor.
#include <cmath>
#include <cstring>
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
    CHECK_THROWS_WITH_AS(stats.at("grad_norm"),
                         doctest::Contains("at(\"grad_norm\", Group{0}) or Tensor{0}"), Error);
    CHECK_THROWS_WITH_AS(stats.at("grad_norm", Group{-1}), doctest::Contains("there is no -1"),
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

TEST_CASE("layer reports are each tensor's norms, and the updates that rounding made vanish") {
  RecipeOptions options = {.check = true, .layer_norms = true, .check_updates = true};
  for (const Device& device : {Device::interpreter(), Device::cpu(1)}) {
    Grouped g(make_recipe("sgd", options), device);
    g.weight = {1, 2, 1025, 1};
    g.grad = {3, 0, 0.03125F, 1};
    StepStats stats = g.run();  // with lr 0.001
    CHECK(*stats.find_list("layer_grad_norm") == std::vector<double>{3, 0, 0.03125});
    CHECK(*stats.find_list("layer_weight_norm") == std::vector<double>{1, 2, 1025});
    CHECK(stats.find_list("layer_update_norm")->at(0) == doctest::Approx(0.003));
    CHECK(stats.find_list("layer_update_norm")->at(1) == 0);
    // 3.1e-5 is less than half of 1025's last place, which is 1.2e-4.
    CHECK(*stats.find_list("layer_updates") == std::vector<double>{1, 0, 1});
    CHECK(*stats.find_list("layer_lost_updates") == std::vector<double>{0, 0, 1});
    g.grad[0] = INFINITY;
    stats = g.run();
    CHECK(*stats.find_list("layer_updates") == std::vector<double>{0, 0, 0});
    CHECK(*stats.find_list("layer_update_norm") == std::vector<double>{0, 0, 0});
    CHECK(stats.find_list("layer_grad_norm")->at(2) == 0.03125);
  }
}

namespace {

// Weights of one tensor in bf16, and what the step keeps of them in addition.
struct Rounded {
  static constexpr size_t kSize = 6000;
  std::vector<uint16_t> weight = std::vector<uint16_t>(kSize);
  std::vector<uint8_t> more = std::vector<uint8_t>(2 * kSize);  // one or two bytes per weight
  std::vector<float> grad = std::vector<float>(kSize);
  Step step;
  Rounded(const RecipeOptions& options, const Device& device)
      : step(make_recipe("sgd", options), Layout().add({.elements = kSize}), device) {
    for (size_t i = 0; i < kSize; ++i) {
      weight[i] = static_cast<uint16_t>(0x3f80 + i % 1024);
      grad[i] = i % 5 == 0 ? 0 : std::ldexp(static_cast<float>(i % 97) - 48, -4);
    }
    step.bind_raw("weight", {weight.data()});
    for (const std::string& name : step.buffers()) {
      if (name != "weight" && name != "grad") step.bind_raw(name, {more.data()});
    }
    step.prepare();
    step.adopt_state();
  }
};

}  // namespace

TEST_CASE("an update is lost if the step leaves all that it keeps of a weight as it was") {
  RecipeOptions nearest{.weight_rounding = WeightRounding::nearest, .check_updates = true};
  RecipeOptions stochastic = nearest, kahan = nearest, remainder{.master = Master::remainder};
  stochastic.weight_rounding = WeightRounding::stochastic;
  kahan.weight_rounding = WeightRounding::kahan;
  remainder.check_updates = true;
  RecipeOptions ecc24 = remainder;
  ecc24.master = Master::ecc24;
  std::vector<double> shares;
  for (const RecipeOptions& options : {nearest, stochastic, kahan, remainder, ecc24}) {
    for (const Device& device : {Device::interpreter(), Device::cpu(2)}) {
      Rounded r(options, device);
      std::vector<uint16_t> weight = r.weight;
      std::vector<uint8_t> more = r.more;
      size_t bytes = options.master == Master::ecc24 ? 1 : 2;
      r.step.run({r.grad.data()}, r.step.make_args());
      double updates = 0, lost = 0;
      for (size_t i = 0; i < r.kSize; ++i) {
        if (r.grad[i] == 0) continue;
        updates += 1;
        bool same = std::memcmp(&r.more[i * bytes], &more[i * bytes], bytes) == 0;
        lost += r.weight[i] == weight[i] && same ? 1 : 0;
      }
      StepStats stats = *r.step.latest();
      CHECK(stats.at("layer_updates", Tensor{0}) == updates);
      CHECK(stats.at("layer_lost_updates", Tensor{0}) == lost);
      shares.push_back(lost / updates);
    }
  }
  CHECK(shares[0] > shares[2]);  // stochastic rounding loses fewer than rounding to nearest
  CHECK(shares[2] > shares[4]);  // and a compensation fewer than that
  CHECK(shares[0] > 0.5);
}
