// Masters in fewer bits than f32: the stored remainder compared with independent models, on the
// interpreter and in compiled kernels, and steps compared with those with f32 masters.
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/format.hpp>
#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/narrow.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

float f32(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t bits_of(float x) { return std::bit_cast<uint32_t>(x); }
float from_bf16(uint16_t bits) { return f32(uint32_t{bits} << 16); }

// Every upper half with lower halves at all edges, and random ones.
std::vector<float> all_kinds() {
  std::vector<float> x;
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (uint32_t low : {0U, 1U, 0x7fffU, 0x8000U, 0x8001U, 0xffffU}) {
      x.push_back(f32(high << 16 | low));
    }
  }
  Rng rng(3, "masters");
  for (int i = 0; i < 100'000; ++i) x.push_back(f32(static_cast<uint32_t>(rng.below(1ULL << 32))));
  return x;
}

template <class Rest>
struct Converted {
  std::vector<uint16_t> weight;
  std::vector<Rest> rest;
  std::vector<float> back;
};

// Converts to the form and back by the library's conversions, on a device.
template <class Rest>
Converted<Rest> keep(std::vector<float> x, std::string_view form, const std::string& rest,
                     const Device& device) {
  Converted<Rest> k{std::vector<uint16_t>(x.size()), std::vector<Rest>(x.size()),
                    std::vector<float>(x.size())};
  Layout layout;
  layout.add({.elements = x.size()});
  auto run = [&](const Program& program, const std::string& whole, const std::string& parts) {
    Step step(program, layout, device);
    auto bind = [&](const std::string& buffer, void* at) {
      step.bind_raw(parts + "." + std::string(form) + "." + buffer, {at});
    };
    bind("weight", k.weight.data());
    bind(rest, k.rest.data());
    step.bind_raw(whole, {whole == "from" ? x.data() : k.back.data()});
    step.prepare();
    step.run(std::vector<void*>{}, step.make_args());
  };
  run(conversion("f32", form), "from", "to");
  run(conversion(form, "f32"), "to", "from");
  return k;
}

const Device kDevices[] = {Device::interpreter(), Device::cpu(2)};

}  // namespace

TEST_CASE("remainder: Apex' and TransformerEngine's rule, and nothing is lost") {
  std::vector<float> x = all_kinds();
  for (const Device& device : kDevices) {
    Converted<int16_t> k = keep<int16_t>(x, "remainder", "remainder", device);
    size_t otherwise = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isnan(x[i])) {
        REQUIRE(std::isnan(k.back[i]));
        REQUIRE(std::isnan(from_bf16(k.weight[i])));
        continue;
      }
      auto low = static_cast<int16_t>(bits_of(x[i]));
      REQUIRE(k.rest[i] == low);
      REQUIRE(k.weight[i] ==
              static_cast<uint16_t>((bits_of(x[i]) - static_cast<uint32_t>(low)) >> 16));
      REQUIRE(bits_of(k.back[i]) == bits_of(x[i]));
      bool nearest_even = k.weight[i] == narrow(x[i], DType::bf16);
      bool tie = low == INT16_MIN;
      REQUIRE((nearest_even || tie));
      otherwise += nearest_even ? 0 : 1;
    }
    CHECK(otherwise > 10'000);  // every second tie
  }
}

TEST_CASE("ecc24: FlashOptim's rule, and what is lost") {
  std::vector<float> x = all_kinds();
  for (const Device& device : kDevices) {
    Converted<int8_t> k = keep<int8_t>(x, "ecc24", "correction", device);
    for (size_t i = 0; i < x.size(); ++i) {
      CAPTURE(x[i]);
      REQUIRE(k.weight[i] == narrow(x[i], DType::bf16));
      float near = from_bf16(k.weight[i]);
      if (std::isnan(x[i]) || std::isinf(near)) {
        REQUIRE((std::isnan(x[i]) ? std::isnan(k.back[i]) : k.back[i] == near));
        continue;
      }
      int exponent = std::max(near == 0 ? -126 : std::ilogb(near), -126);
      double half_unit = std::ldexp(1.0, exponent - 8);
      double missing = (double{x[i]} - double{near}) / half_unit;
      REQUIRE(std::fabs(missing) <= 1);
      auto code =
          static_cast<int8_t>(std::copysign(std::floor(std::fabs(missing) * 127 + 0.5), missing));
      REQUIRE(k.rest[i] == code);
      float part = static_cast<float>(code) / 127.0F;
      REQUIRE(k.back[i] == near + static_cast<float>(double{part} * half_unit));
      double rounding = std::ldexp(1.0, std::max(exponent - 23, -149));
      REQUIRE(std::fabs(double{k.back[i]} - double{x[i]}) <= half_unit / 254 + rounding);
    }
  }
}

namespace {

constexpr size_t kSize = 20'000;

// AdamW of one tensor with bf16 weights.
struct Run {
  std::vector<uint16_t> weight = std::vector<uint16_t>(kSize), grad = std::vector<uint16_t>(kSize);
  std::vector<float> master = std::vector<float>(kSize), m = master, v = master;
  std::vector<int16_t> remainder = std::vector<int16_t>(kSize);
  std::vector<int8_t> correction = std::vector<int8_t>(kSize);
  Step step;

  Run(Master kind, const Device& device)
      : step(
            make_recipe("adamw", {.grad = DType::bf16, .master = kind, .clip = Clip::l2}),
            [] { return Layout().add({.elements = kSize}); }(), device) {
    for (size_t i = 0; i < kSize; ++i) {
      weight[i] =
          static_cast<uint16_t>(narrow(static_cast<float>(i % 1009) / 500 - 1, DType::bf16));
    }
    step.bind_raw("weight", {weight.data()});
    if (kind == Master::f32) step.bind_raw("master", {master.data()});
    if (kind == Master::remainder) step.bind_raw("remainder", {remainder.data()});
    if (kind == Master::ecc24) step.bind_raw("correction", {correction.data()});
    step.bind_raw("exp_avg", {m.data()});
    step.bind_raw("exp_avg_sq", {v.data()});
    step.prepare();
    step.init_state();
  }
  void run(int count) {
    for (int k = 0; k < count; ++k) {
      for (size_t i = 0; i < kSize; ++i) {
        float g = std::sin(static_cast<float>(i * 7 + static_cast<size_t>(k) * 13));
        grad[i] = static_cast<uint16_t>(narrow(g, DType::bf16));
      }
      step.run({grad.data()}, step.make_args());
    }
  }
};

}  // namespace

TEST_CASE(
    "a step with remainders has the bits of one with f32 masters; one with ecc24 stays near") {
  for (const Device& device : kDevices) {
    Run whole(Master::f32, device), exact(Master::remainder, device), near(Master::ecc24, device);
    for (Run* r : {&whole, &exact, &near}) r->run(6);
    size_t apart = 0;
    for (size_t i = 0; i < kSize; ++i) {
      uint32_t bits = (uint32_t{exact.weight[i]} << 16) + static_cast<uint32_t>(exact.remainder[i]);
      REQUIRE(bits == bits_of(whole.master[i]));
      REQUIRE((exact.weight[i] == whole.weight[i] || exact.remainder[i] == INT16_MIN));
      REQUIRE(std::fabs(from_bf16(near.weight[i]) - whole.master[i]) < 0x1p-7F);
      apart += near.weight[i] == whole.weight[i] ? 0 : 1;
    }
    CHECK(apart < kSize / 50);  // weights near the middle of two
    CHECK(exact.m == whole.m);
  }
}

TEST_CASE("masters: the flag that was is f32, and other than bf16 weights are refused") {
  RecipeOptions o;
  for (auto [text, kind] : {std::pair("", Master::f32),
                            {"true", Master::f32},
                            {"f32", Master::f32},
                            {"remainder", Master::remainder},
                            {"ecc24", Master::ecc24},
                            {"none", Master::none},
                            {"false", Master::none}}) {
    set_option(o, "master", text);
    CHECK(o.master == kind);
  }
  CHECK_THROWS_WITH_AS(set_option(o, "master", "f16"), doctest::Contains("remainder"), Error);
  for (Master kind : {Master::remainder, Master::ecc24}) {
    RecipeOptions half{.master = kind, .model = DType::f16};
    CHECK_THROWS_WITH_AS(make_recipe("adamw", half), doctest::Contains(".model = bf16"), Error);
    half = {.grad = DType::f16, .master = kind};
    CHECK_THROWS_WITH_AS(make_recipe("adamw", half), doctest::Contains("but .model is f16"), Error);
    half.model = DType::bf16;
    CHECK_NOTHROW(make_recipe("adamw", half));
    half.weight_rounding = WeightRounding::kahan;
    CHECK_THROWS_WITH_AS(make_recipe("adamw", half), doctest::Contains("leave out"), Error);
  }
}

TEST_CASE("an average of weights with remainders begins with them") {
  for (const RecipeInfo& r : list_recipes()) {
    if (r.name == "accumulate" || r.name == "loss_scale_update") continue;
    CAPTURE(r.name);
    Program p;
    try {
      p = make_recipe(r.name, {.master = Master::remainder, .ema = true});
    } catch (const Error& e) {
      CHECK_MESSAGE(std::string_view(e.what()).find("nothing to the weight") != std::string::npos,
                    e.what());
      continue;
    }
    const Buffer& ema = p.buffers[static_cast<size_t>(p.find_buffer("ema"))];
    CHECK(ema.init == Buffer::Init::copy);
    CHECK(ema.init_from == p.find_buffer("weight"));
    const Buffer& rest = p.buffers[static_cast<size_t>(p.find_buffer("remainder"))];
    CHECK(rest.init == Buffer::Init::zero);
  }
}
