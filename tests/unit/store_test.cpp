// Option --store: what its entries set, that the older options say the same, and what it refuses.
#include <doctest/doctest.h>

#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

using namespace stepfuse;

namespace {

RecipeOptions stored(std::string_view text) {
  RecipeOptions o;
  set_option(o, "store", text);
  return o;
}

std::string refusal(std::string_view text) {
  try {
    stored(text);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::usage);
    return e.what();
  }
  return "";
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("--store and the older options give the same value, and so the same step") {
  struct Pair {
    const char* store;
    std::vector<std::pair<const char*, const char*>> older;
  };
  const Pair pairs[] = {
      {"weight=bf16+f32", {{"master", "f32"}, {"model", "bf16"}}},
      {"weight=bf16+ecc24", {{"master", "ecc24"}, {"model", "bf16"}}},
      {"weight=bf16+remainder", {{"master", "remainder"}, {"model", "bf16"}}},
      {"weight=f16", {{"model", "f16"}, {"weight-rounding", "nearest"}}},
      {"weight=bf16:stochastic", {{"model", "bf16"}, {"weight-rounding", "stochastic"}}},
      {"weight=bf16:kahan", {{"model", "bf16"}, {"weight-rounding", "kahan"}}},
      {"weight=f8e4m3:mx-rceil",
       {{"master", "f32"}, {"model", "f8e4m3"}, {"copy-scale", "mx-rceil"}}},
      {"weight=f8e5m2+f32:block128",
       {{"master", "f32"}, {"model", "f8e5m2"}, {"copy-scale", "block128"}}},
      {"weight=mxfp8", {{"master", "f32"}, {"model", "f8e4m3"}, {"copy-scale", "mxfp8"}}},
      {"weight=f8e5m2:mxfp8-rceil",
       {{"master", "f32"}, {"model", "f8e5m2"}, {"copy-scale", "mxfp8-rceil"}}},
      {"weight=nvfp4", {{"master", "f32"}, {"copy-scale", "nvfp4"}}},
      {"weight=nvfp4-delayed", {{"master", "f32"}, {"copy-scale", "nvfp4-delayed"}}},
      {"weight=f8e4m3:delayed",
       {{"master", "f32"}, {"model", "f8e4m3"}, {"copy-scale", "delayed"}}},
      {"moments=bf16", {{"moments", "bf16"}}},
      {"exp_avg=int8,exp_avg_sq=sqrt8", {{"moments", "exp_avg=int8|exp_avg_sq=sqrt8"}}},
  };
  for (const Pair& p : pairs) {
    CAPTURE(p.store);
    RecipeOptions older;
    for (const auto& [name, value] : p.older) set_option(older, name, value);
    RecipeOptions o = stored(p.store);
    CHECK(o == older);
    CHECK(print(make_recipe("adamw", o)) == print(make_recipe("adamw", older)));
  }
}

TEST_CASE("an entry with '@' is for tensors of at least that many elements") {
  Program p = make_recipe("adamw", stored("exp_avg@4096=fp8,exp_avg_sq@100=dyn8u"));
  auto buffer = [&](std::string_view name) {
    int slot = p.find_buffer(name);
    REQUIRE(slot >= 0);
    return p.buffers[static_cast<size_t>(slot)];
  };
  CHECK(buffer("exp_avg").below == 4096);
  CHECK(buffer("exp_avg.fp8.code").from == 4096);
  CHECK(buffer("exp_avg_sq").below == 100);
  CHECK(buffer("exp_avg_sq.dyn8u.scale").from == 100);

  RecipeOptions older;
  set_option(older, "moments", "fp8");
  set_option(older, "moments-below", "4096");
  CHECK(print(make_recipe("adamw", stored("moments@4096=fp8"))) ==
        print(make_recipe("adamw", older)));
}

TEST_CASE("entries add up, a later one replaces an earlier one, and a moment may be bf16 alone") {
  RecipeOptions o = stored("weight=bf16+ecc24");
  set_option(o, "store", "moments=fp8,exp_avg_sq=bf16");
  set_option(o, "store", "weight=bf16+remainder");
  Program p = make_recipe("adamw", o);
  CHECK(p.find_buffer("remainder") >= 0);
  CHECK(p.find_buffer("correction") < 0);
  CHECK(p.find_buffer("exp_avg.fp8.code") >= 0);
  int slot = p.find_buffer("exp_avg_sq");
  REQUIRE(slot >= 0);
  CHECK(p.buffers[static_cast<size_t>(slot)].dtypes == DTypeSet(DType::bf16));
  CHECK(o.moments.text() == "fp8,exp_avg_sq=bf16");
}

TEST_CASE("--store refuses what it cannot do, and says what it can") {
  CHECK(has(refusal("fp8"), "write BUFFER=FORM"));
  CHECK(has(refusal("exp_avg@many=fp8"), "behind '@' goes the number of elements"));
  CHECK(has(refusal("grad=f16"), "option --grad"));
  CHECK(has(refusal("master=f32"), "weight=bf16+f32"));
  CHECK(has(refusal("weight@100=bf16"), "leave out '@'"));
  CHECK(has(refusal("weight=i8+f32"), "expected f32, a type (f16, bf16, f8e4m3, f8e5m2), "));
  CHECK(has(refusal("weight=i8+f32"), "as in mxfp8"));
  CHECK(has(refusal("weight=bf16+ecc16"), "f32, remainder or ecc24"));
  CHECK(has(refusal("weight=f8e4m3:largest"), "block128-f32"));
  const std::string scales = refusal("weight=f8e4m3:largest");
  CHECK(scales.find("delayed,") != std::string::npos);
  CHECK(scales.find(" delayed,") == scales.rfind(" delayed,"));  // each scale is named once
  CHECK(has(refusal("exp_avg=fp9"), "there is no format 'fp9'"));
  CHECK_THROWS_WITH_AS(make_recipe("adamw", stored("momentum=fp8")),
                       "store: adamw has no moment 'momentum'; it has exp_avg, exp_avg_sq", Error);
  CHECK_THROWS_WITH_AS(make_recipe("adamw", stored("momentum=fp8"), OptionNames::flags),
                       "--store: adamw has no moment 'momentum'; it has exp_avg, exp_avg_sq",
                       Error);
  CHECK_THROWS_WITH_AS(make_recipe("adamw", {.moments = "momentum=fp8"}),
                       ".moments: adamw has no moment 'momentum'; it has exp_avg, exp_avg_sq",
                       Error);
  CHECK_THROWS_WITH_AS(make_recipe("adafactor", stored("exp_avg=fp8")),
                       "store: adafactor has no moments; leave 'exp_avg' out", Error);
  CHECK_THROWS_WITH_AS(make_recipe("adafactor", stored("moments=fp8")),
                       "store: adafactor has no moments; leave 'moments' out", Error);
  CHECK_THROWS_WITH_AS(make_recipe("adamw", stored("exp_avg@100=bf16")),
                       doctest::Contains("leave out '@'"), Error);
  CHECK_THROWS_WITH_AS(
      make_recipe("adamw", stored("weight=f8e4m3:nvfp4")),
      doctest::Contains(".copy_scale = nvfp4 decides the type of the copies; leave out"), Error);
  CHECK_THROWS_WITH_AS(make_recipe("adamw", {.copy_scale = CopyScale("nvfp4")}),
                       doctest::Contains("copies of f32 masters; add .master = f32"), Error);
  CHECK_THROWS_WITH_AS(make_recipe("adamw", stored("weight=mxfp8,moments=fp8")),
                       doctest::Contains(".copy_scale = mxfp8"), Error);
  CHECK_THROWS_WITH_AS(make_recipe("adafactor", stored("weight=mxfp8")),
                       doctest::Contains("use another .copy_scale"), Error);
  CHECK_THROWS_WITH_AS(make_recipe("adamw", stored("weight=bf16:current")),
                       doctest::Contains("8-bit copies"), Error);
}
