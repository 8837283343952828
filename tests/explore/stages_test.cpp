// Each line of each stage belongs to the IR lines that it was made from.
#include "tools/explore/stages.hpp"

#include <algorithm>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>

#include "runtime/cuda/nvrtc.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::explore;
using stepfuse::testing::has;

namespace {

Stages stages_of(const std::string& recipe, const RecipeOptions& options) {
  Program program = make_recipe(recipe, options);
  return make_stages({.program = program, .signatures = testing::signatures_of(program)},
                     [](std::string_view) {});
}

const Stage& stage(const Stages& all, std::string_view name) {
  auto it = std::ranges::find(all.all, name, &Stage::name);
  REQUIRE(it != all.all.end());
  return *it;
}

// The number of the IR line with this beginning.
int line_of(const Stages& all, std::string_view begin) {
  const std::vector<Line>& ir = stage(all, "IR").lines;
  auto it = std::ranges::find_if(ir, [&](const Line& l) {
    size_t at = l.text.find_first_not_of(' ');
    return at != l.text.npos && std::string_view(l.text).substr(at).starts_with(begin);
  });
  REQUIRE(it != ir.end());
  return static_cast<int>(it - ir.begin()) + 1;
}

// The lines of a stage that belong to this IR line and no other.
std::string alone(const Stage& s, int origin) {
  std::string out;
  for (const Line& l : s.lines) {
    if (l.origins == std::vector<int>{origin}) out += l.text + "\n";
  }
  return out;
}

}  // namespace

TEST_CASE("an instruction is found in every stage's own words") {
  Stages all = stages_of("adamw", {.clip = Clip::l2});
  int square = line_of(all, "%g_square = mul");
  CHECK(has(alone(stage(all, "passes"), square), "%g_square = mul %grad, %grad"));
  CHECK(has(alone(stage(all, "schedule"), square), "%g_square = mul"));
  CHECK(has(alone(stage(all, "plan"), square), "e_g_square = mul e_grad"));
  CHECK(has(alone(stage(all, "CUDA"), square), "const float e_g_square = "));
  CHECK(has(alone(stage(all, "C"), square), "const float e_g_square = "));
  CHECK(has(alone(stage(all, "LLVM IR"), square), "fmul"));
  int store = line_of(all, "store @weight");
  CHECK(has(alone(stage(all, "CUDA"), store), "store<"));
  CHECK(has(alone(stage(all, "C"), store), "b_weight[i] = "));
  CHECK(has(alone(stage(all, "LLVM IR"), store), "store <"));
  CHECK(alone(stage(all, "LLVM IR"), store).find("br i1 %more") == std::string::npos);
}

TEST_CASE("instructions that passes fold have no line afterwards, and the others keep theirs") {
  Stages all = stages_of("adamw", {.loss_scale = LossScale::dynamic, .clip = Clip::l2});
  const std::vector<Line>& ir = stage(all, "IR").lines;
  size_t known = 0, kept = 0;
  for (size_t i = 0; i < ir.size(); ++i) {
    if (ir[i].origins.empty()) continue;
    ++known;
    CHECK(ir[i].origins == std::vector<int>{static_cast<int>(i) + 1});
    bool found = std::ranges::any_of(stage(all, "passes").lines, [&](const Line& l) {
      return std::ranges::find(l.origins, static_cast<int>(i) + 1) != l.origins.end();
    });
    kept += found ? 1 : 0;
  }
  CHECK(known > 100);
  CHECK(kept > known * 9 / 10);
  CHECK(kept < known);  // some constants and casts are merged
}

TEST_CASE("machine instructions have issue cycles, and no other line has") {
  Stages all = stages_of("sgd", {});
  for (const Stage& s : all.all) {
    auto timed = std::ranges::count_if(s.lines, [](const Line& l) { return l.cycles > 0; });
    if (s.name != "SASS" || s.lines.empty()) {
      CHECK_MESSAGE(timed == 0, s.name);
    } else {
      CHECK(timed > 20);
    }
  }
}

TEST_CASE("PTX belongs to the lines in the compiler's line information") {
  Stages all = stages_of("sgd", {});
  const Stage& ptx = stage(all, "PTX");
  if (!cuda::nvrtc_status().available) {
    CHECK(has(ptx.note, "STEPFUSE_NVRTC_DIR"));
    return;
  }
  int update = line_of(all, "%w_new = fma");
  CHECK(has(alone(ptx, update), "fma.rn.f32"));
  CHECK(alone(ptx, update).find("ld.global") == std::string::npos);
  CHECK(has(alone(ptx, line_of(all, "%grad = load")), "ld.global"));
  CHECK(has(alone(ptx, line_of(all, "store @weight")), "st.global"));
  const Stage& sass = stage(all, "SASS");
  if (sass.lines.empty()) {
    CHECK(has(sass.note, "STEPFUSE_NVDISASM"));
    return;
  }
  CHECK(has(alone(sass, update), "FFMA"));
  CHECK(has(alone(sass, line_of(all, "%grad = load")), "LDG"));
  CHECK(has(alone(sass, line_of(all, "store @weight")), "STG"));
}
