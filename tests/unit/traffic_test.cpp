// Bytes per parameter of known pipelines, counted from their plans.
#include "compiler/plan/traffic.hpp"

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

KernelPlan plan_of(const Program& source, Form form, std::vector<Signature> signatures = {}) {
  if (signatures.empty()) signatures.push_back(signature_of(source));
  return make_variant(optimize(source, signatures), signatures, form).plan;
}

KernelPlan adamw(const RecipeOptions& options, Form form) {
  return plan_of(make_recipe("adamw", options), form);
}

uint32_t bytes(const RecipeOptions& options, Form form = Form::fused) {
  return traffic_of(adamw(options, form), 0).bytes();
}

const RecipeOptions kWholeStep = {
    .loss_scale = LossScale::dynamic, .check = true, .clip = Clip::l2};

RecipeOptions low_precision(DType grad) {
  RecipeOptions o = kWholeStep;
  o.grad = grad;
  o.master = true;
  return o;
}

// The array of that name in one phase; zeros if the phase leaves it alone.
ArrayTraffic array(const KernelPlan& plan, const PhaseTraffic& phase, std::string_view buffer) {
  for (const ArrayTraffic& a : phase.arrays) {
    if (a.buffer >= 0 && plan.arrays[static_cast<size_t>(a.buffer)].text == buffer) return a;
  }
  return {};
}

}  // namespace

TEST_CASE("f32 with scale, check and clip: 32 bytes fused and split, 48 unfused") {
  CHECK(bytes(kWholeStep) == 32);
  CHECK(bytes(kWholeStep, Form::split) == 32);
  CHECK(bytes(kWholeStep, Form::unfused) == 48);
}

TEST_CASE("16-bit gradients with master weights and a copy: 30 bytes") {
  CHECK(bytes(low_precision(DType::f16)) == 30);
  CHECK(bytes(low_precision(DType::bf16)) == 30);
  // unscale 2+4, norm 4, clip 4+4, optimizer 4+24, copy 4+2
  CHECK(bytes(low_precision(DType::f16), Form::unfused) == 52);
}

TEST_CASE("masters of bf16 weights: 30 bytes, 28 and 26") {
  RecipeOptions o = low_precision(DType::bf16);
  for (auto [master, expected] :
       {std::pair(Master::f32, 30U), {Master::remainder, 28U}, {Master::ecc24, 26U}}) {
    o.master = master;
    CHECK(bytes(o) == expected);
  }
  set_option(o, "master", "remainder");
  set_option(o, "moments", "fp8");
  // 16, and two scales of 4 bytes for 256 elements read and written.
  CHECK(traffic_of(adamw(o, Form::fused), 0).bytes() == doctest::Approx(16.0625));
}

TEST_CASE("a transposed copy is one more read of the codes and one write of each array") {
  RecipeOptions o;
  o.grad = DType::bf16;
  set_option(o, "store", "weight=mxfp8");
  auto moved = [&] { return traffic_of(adamw(o, Form::fused), 0).bytes(); };
  double plain = 26 + 4 + 1 + 1.0 / 32;  // the masters are read twice
  CHECK(moved() == doctest::Approx(plain));
  o.orientation = Orientation::both;
  // Each scale of a block is read for one of 32 columns and written for all of them.
  double turned = 2 + 1.0 / 1024 + 1.0 / 32;
  CHECK(moved() == doctest::Approx(plain + turned));
  o.scale_layout = ScaleLayout::swizzled;
  CHECK(moved() == doctest::Approx(plain + turned + 2.0 / 32));
  CHECK(barrier_count(adamw(o, Form::fused)) == 2);
  CHECK(launch_count(adamw(o, Form::fused)) == 1);
}

TEST_CASE("without check and clip the gradient is read once: 28 bytes, no barrier") {
  CHECK(bytes({}) == 28);
  CHECK(barrier_count(adamw({}, Form::fused)) == 0);
  CHECK(barrier_count(adamw(kWholeStep, Form::fused)) == 1);
  CHECK(barrier_count(adamw(kWholeStep, Form::split)) == 0);
  // Before the common fold of its tensors' norms, and before the update.
  CHECK(barrier_count(plan_of(make_recipe("lamb", {}), Form::fused)) == 2);
  CHECK(barrier_count(plan_of(make_recipe("lamb", {}), Form::split)) == 0);
}

TEST_CASE("bf16 moments, zeroed gradients and an average of the weights") {
  RecipeOptions o = kWholeStep;
  o.moments = DType::bf16;
  CHECK(bytes(o) == 24);
  o = kWholeStep;
  o.zero_grad = true;
  CHECK(bytes(o) == 36);
  o = kWholeStep;
  o.ema = true;
  CHECK(bytes(o) == 40);
}

TEST_CASE("who moves what, by phase") {
  KernelPlan s = adamw(low_precision(DType::f16), Form::fused);
  Traffic t = traffic_of(s, 0);
  REQUIRE(t.phases.size() == 2);
  CHECK(t.phases[0].bytes() == 2);
  CHECK(t.phases[0].arrays.size() == 1);
  CHECK(t.phases[1].bytes() == 28);
  CHECK(array(s, t.phases[1], "@grad").read == 2);
  CHECK(array(s, t.phases[1], "@grad").written == 0);
  CHECK(array(s, t.phases[1], "@weight").read == 0);
  CHECK(array(s, t.phases[1], "@weight").written == 2);
  CHECK(array(s, t.phases[1], "@exp_avg").read == 4);
  CHECK(array(s, t.phases[1], "@exp_avg").written == 4);
  uint32_t sum = 0;
  for (const ArrayTraffic& a : t.by_array()) sum += a.total();
  CHECK(sum == t.bytes());
}

TEST_CASE("a skipped step reads the gradient once, and zeroes it where that is asked for") {
  CHECK(traffic_of(adamw(kWholeStep, Form::fused), 0).skipped_bytes() == 4);
  RecipeOptions o = kWholeStep;
  o.zero_grad = true;
  CHECK(traffic_of(adamw(o, Form::fused), 0).skipped_bytes() == 8);
}

TEST_CASE("scratch arrays count as what they hold, and launches as kernels") {
  KernelPlan s = adamw(low_precision(DType::bf16), Form::unfused);
  Traffic t = traffic_of(s, 0);
  CHECK(launch_count(s) == 6);
  CHECK(launch_count(adamw(kWholeStep, Form::fused)) == 1);
  bool found = false;
  for (const ArrayTraffic& a : t.phases[0].arrays) {
    if (a.scratch < 0) continue;
    found = true;
    CHECK(a.written == 4);
    CHECK(a.read == 0);
  }
  CHECK(found);
}

TEST_CASE("each signature has its own traffic") {
  RecipeOptions o = kWholeStep;
  o.grad = DTypeSet(DType::f16) | DType::f32;
  Program p = make_recipe("adamw", o);
  KernelPlan s = plan_of(p, Form::fused, signatures_of(p, {DType::f16, DType::f32}));
  CHECK(traffic_of(s, 0).bytes() == 28);
  CHECK(traffic_of(s, 1).bytes() == 32);
}

TEST_CASE("LAMB behind a clip measures its weights where it reads them anyway") {
  KernelPlan s = plan_of(make_recipe("lamb", {.clip = Clip::l2}), Form::split);
  Traffic t = traffic_of(s, 0);
  CHECK(t.phases[0].bytes() == 4);   // the gradient
  CHECK(t.phases[1].bytes() == 16);  // and moments and weight
  CHECK(t.phases[2].bytes() == 28);  // with the stores
  uint32_t floor = 0;
  for (const ArrayTraffic& a : t.floor()) floor += a.total();
  CHECK(floor == 28);
}

TEST_CASE("LAMB fused stores its moments with the norms and reads them back: 4 bytes less") {
  KernelPlan s = plan_of(make_recipe("lamb", {}), Form::fused);
  Traffic t = traffic_of(s, 0);
  CHECK(t.phases[0].bytes() == 24);
  CHECK(array(s, t.phases[0], "@exp_avg") == ArrayTraffic{.buffer = 2, .read = 4, .written = 4});
  CHECK(t.phases[1].bytes() == 16);
  CHECK(array(s, t.phases[1], "@exp_avg") == ArrayTraffic{.buffer = 2, .read = 4});
  CHECK(array(s, t.phases[1], "@grad").total() == 0);
  KernelPlan clipped = plan_of(make_recipe("lamb", {.clip = Clip::l2}), Form::fused);
  CHECK(traffic_of(clipped, 0).bytes() == 44);
  // In 16 bits they are not what the update was made of.
  CHECK(
      traffic_of(plan_of(make_recipe("lamb", {.moments = DType::bf16}), Form::fused), 0).bytes() ==
      32);
}

TEST_CASE("no recipe moves more fused than in stages or split, with any one option") {
  int counted = 0;
  auto count = [&](std::string_view recipe, std::string_view option, std::string_view value) {
    Program p;
    try {
      RecipeOptions options;
      if (!option.empty()) set_option(options, option, value);
      p = make_recipe(recipe, options);
    } catch (const Error&) {
      return;  // an option of other recipes
    }
    CAPTURE(recipe);
    CAPTURE(option);
    CAPTURE(value);
    double fused = traffic_of(plan_of(p, Form::fused), 0).bytes();
    double unfused = traffic_of(plan_of(p, Form::unfused), 0).bytes();
    // With a norm or a share of the update, the stage that makes the update keeps what these compute twice.
    bool twice = option == "caution" ? recipe == "adadelta" || recipe == "lamb" ||
                                           recipe == "novograd" || recipe == "radam"
                                     : option == "update-clip" && recipe == "adadelta";
    // A moment that only some sizes have is not read back early, so the update computes it twice.
    twice = twice || (recipe == "lamb" && value == "exp_avg@4096=fp8");
    CHECK(fused <= unfused + (twice && value != "none" ? 4 : 0));
    CHECK(fused <= traffic_of(plan_of(p, Form::split), 0).bytes());
    ++counted;
  };
  for (const RecipeInfo& recipe : list_recipes()) {
    count(recipe.name, "", "");
    for (const RecipeOption& option : recipe_option_table()) {
      if (option.values.empty()) count(recipe.name, option.name, "true");
      for (std::string_view value : option.values) count(recipe.name, option.name, value);
    }
  }
  CHECK(counted > 1000);
}
