// The built-in recipes: every combination of options is a valid program, text round-trips, and
// contradictions are refused with a remedy.
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/program/verifier.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::string error_of(const std::string& recipe, const RecipeOptions& options) {
  return message_of(ErrorKind::usage, [&] { make_recipe(recipe, options); });
}

// How many members an aggregate has: as many as can be initialised from anything.
struct Anything {
  template <class T>
  operator T() const {
    return T{};
  }
};
template <class T, class... Given>
consteval size_t member_count() {
  if constexpr (requires { T{Given{}..., Anything{}}; }) {
    return member_count<T, Given..., Anything>();
  } else {
    return sizeof...(Given);
  }
}

}  // namespace

TEST_CASE("every recipe option stands in the table, from which command line and tests take them") {
  // --store sets the members of its aliases.
  CHECK(recipe_option_table().size() == member_count<RecipeOptions>() + 1);
}

TEST_CASE("plain adamw has one stage, no reduction and f64 only outside of per-element code") {
  Program p = make_recipe("adamw");
  CHECK(p.stages == std::vector<std::string>{"optimizer"});
  for (const Inst& inst : p.insts) CHECK_FALSE(is_reduction(inst.op));
  CHECK(p.find_buffer("grad") == 0);
  CHECK(p.find_buffer("weight") == 1);
  CHECK(p.find_buffer("exp_avg") == 2);
  CHECK(p.find_buffer("exp_avg_sq") == 3);
}

TEST_CASE("the classic pipeline has its stages in order") {
  Program p = make_recipe(
      "adamw",
      {.grad = DType::f16, .master = true, .loss_scale = LossScale::dynamic, .clip = Clip::l2});
  std::vector<std::string> want = {"unscale", "norm", "clip", "optimizer", "copy", "scale"};
  CHECK(p.stages == want);
  CHECK(p.buffers[static_cast<size_t>(p.find_buffer("weight"))].dtypes == DTypeSet(DType::f16));
}

TEST_CASE("every value of every option makes a valid program whose text parses back") {
  int made = 0;
  for (const RecipeInfo& recipe : list_recipes()) {
    for (const RecipeOption& option : recipe_option_table()) {
      auto values = option.values;
      if (values.empty()) values = {"true"};
      for (std::string_view value : values) {
        RecipeOptions o;
        o.loss_scale = LossScale::dynamic;
        bool optimizer = recipe.name != "accumulate" && recipe.name != "loss_scale_update";
        o.clip = optimizer ? Clip::l2 : Clip::none;
        o.master = optimizer;
        set_option(o, option.name, value);
        Program p;
        try {
          p = make_recipe(recipe.name, o);
        } catch (const Error& e) {
          CHECK(e.kind() == ErrorKind::usage);
          continue;
        }
        ++made;
        CHECK(find_violations(p).empty());
        CHECK(parse(print(p)) == p);
      }
    }
  }
  CHECK(made > 60);
}

TEST_CASE("setting an option and reading it back agree") {
  for (const RecipeOption& option : recipe_option_table()) {
    auto values = option.values;
    if (values.empty()) values = {"true", "false"};
    for (std::string_view value : values) {
      RecipeOptions o;
      set_option(o, option.name, value);
      if (option.name != "store") CHECK(option.get(o) == value);  // its aliases print what it sets
    }
  }
  RecipeOptions o;
  set_option(o, "grad", "f16|f32");
  CHECK(o.grad == (DTypeSet(DType::f16) | DType::f32));
}

TEST_CASE("contradictions are refused with a remedy") {
  CHECK(has(error_of("adamw", {.model = DType::f16}), "add .master"));
  CHECK(has(error_of("adamw", {.clip_per_group = true}), ".clip = l2"));
  CHECK(has(
      error_of("adamw", {.loss_scale = LossScale::dynamic, .on_nonfinite = OnNonfinite::propagate}),
      ".loss_scale = fixed"));
  CHECK(has(error_of("adamw", {.momentum = true}), "leave it out"));
  CHECK(has(error_of("adamw", {.grad = DTypeSet()}), "at least one"));
  CHECK(has(error_of("accumulate", {.clip = Clip::l2}), "it takes .grad"));
  CHECK(has(error_of("nonesuch", {}), ", adamw, "));
  RecipeOptions apex{.profile = Profile::apex};
  make_recipe("adamw", apex);
  apex.amsgrad = true;
  CHECK(has(error_of("adamw", apex), "Apex has no AMSGrad; leave out .amsgrad"));
  RecipeOptions o;
  CHECK_THROWS_AS(set_option(o, "moments", "f64"), Error);
  CHECK_THROWS_AS(set_option(o, "nonesuch"), Error);
  CHECK_THROWS_AS(set_option(o, "grad", "f16|f8"), Error);
}

TEST_CASE("every argument has a fallback, every kept buffer an initial value") {
  for (const RecipeInfo& recipe : list_recipes()) {
    RecipeOptions o{.master = true,
                    .loss_scale = LossScale::megatron,
                    .scale_bounds = true,
                    .clip = Clip::l2,
                    .skip_norm = true,
                    .ema = true};
    if (recipe.name == "accumulate") o = {};
    if (recipe.name == "muon_momentum") o.master = o.ema = false;
    if (recipe.name == "loss_scale_update") {
      o = {.loss_scale = LossScale::megatron, .scale_bounds = true};
    }
    Program p = make_recipe(recipe.name, o);
    for (const Arg& a : p.args) CHECK_MESSAGE(a.fallback.has_value(), a.name);
    for (const Buffer& b : p.buffers) {
      bool kept = b.name != "grad" && b.name != "weight" && b.access == Access::inout;
      CHECK_MESSAGE((b.init != Buffer::Init::none) == kept, b.name);
    }
    int scale = p.find_state("scale");
    CHECK((scale < 0) == (recipe.name == "accumulate"));
    if (scale >= 0) CHECK(p.states[static_cast<size_t>(scale)].initial == Bits::of(65536.0F));
  }
}
