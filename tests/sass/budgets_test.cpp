// Static budgets of the main kernels: what one compiler makes of them, kept as text, so that a
// change which costs instructions, registers or bytes in flight is seen.
#include <algorithm>
#include <cstdlib>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/passes/pass_manager.hpp"
#include "runtime/cuda/nvrtc_facts.hpp"
#include "tests/support/expected_text.hpp"
#include "tests/support/golden_cases.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tools/sass/disassembler.hpp"
#include "tools/sass/report.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const std::vector<int> kArchs = {80, 90, 100, 120};
constexpr std::string_view kDisassembler = "13.2";

struct Case {
  std::string name;
  Program program;
  DType grad;
  std::vector<int> archs = kArchs;
};

std::vector<Case> cases() {
  RecipeOptions scaled{.loss_scale = LossScale::dynamic, .clip = Clip::l2};
  RecipeOptions half = scaled, narrow = scaled, momentum;
  half.grad = DType::f16;
  half.master = true;
  narrow.grad = DType::bf16;
  narrow.master = true;
  narrow.moments = DType::bf16;
  momentum.momentum = true;
  std::vector<Case> cases = {
      {"adamw, f16 gradients, master, scale, clip", make_recipe("adamw", half), DType::f16},
      {"adamw, f32, scale, clip", make_recipe("adamw", scaled), DType::f32},
      {"adamw, bf16 gradients and moments, master, scale, clip", make_recipe("adamw", narrow),
       DType::bf16},
      {"lion, f32", make_recipe("lion"), DType::f32},
      {"sgd with momentum, f32", make_recipe("sgd", momentum), DType::f32}};
  RecipeOptions kept = half;
  kept.grad = DType::bf16;
  auto add = [&](std::string_view what, const RecipeOptions& options) {
    cases.push_back({fmt::format("adamw, bf16 gradients, scale, clip, {}", what),
                     make_recipe("adamw", options),
                     DType::bf16,
                     {90, 100}});
  };
  for (std::string_view format :
       {"fp8", "exp_avg=dyn8|exp_avg_sq=dyn8u", "exp_avg=int8|exp_avg_sq=sqrt8",
        "exp_avg=dyn4|exp_avg_sq=lin4"}) {
    RecipeOptions o = kept;
    o.moments = format;
    add(fmt::format("master, moments {}", format), o);
  }
  kept.master = Master::remainder;
  add("remainder", kept);
  kept.master = Master::ecc24;
  add("ecc24", kept);
  kept.master = Master::none;
  kept.weight_rounding = WeightRounding::stochastic;
  add("stochastic", kept);
  kept.weight_rounding = WeightRounding::kahan;
  add("kahan", kept);
  return cases;
}

std::string lines(const Case& c, int arch) {
  std::vector<Signature> signatures = signatures_of(c.program, {c.grad});
  Variant variant = make_variant(optimize(c.program, signatures), signatures);
  std::vector<sass::PhaseLoop> loops = sass::report_of(variant, arch).loops;
  std::string out;
  for (size_t p = 0; p < variant.plan.phases.size(); ++p) {
    out += fmt::format("  sm_{:<3} {:6} ", arch, variant.plan.phases[p].name);
    auto is_its = [&](const sass::PhaseLoop& l) { return l.phase == static_cast<int>(p); };
    auto loop = std::find_if(loops.begin(), loops.end(), is_its);
    if (loop == loops.end()) {
      out += "not told apart from other loops\n";
      continue;
    }
    const sass::Budget& b = loop->budget;
    out += fmt::format(
        "{:5.1f} instructions, {:3.1f} special an element; {:2.0f} KiB in flight, {} blocks, {} "
        "exposed cycles\n",
        b.per_element(b.instructions), b.per_element(b.special),
        sass::kib_in_flight(b, loop->occupancy), loop->occupancy.blocks, b.exposed_cycles);
    for (const std::string& finding : loop->findings) out += fmt::format("    {}\n", finding);
  }
  return out;
}

}  // namespace

TEST_CASE("budgets of the main kernels") {
  STEPFUSE_NEEDS_NVRTC();
  std::string program = sass::find_disassembler();
  if (program.empty()) {
    MESSAGE("skipped: there is no nvdisasm; tools/setup.sh fetches one");
    return;
  }
  const cuda::NvrtcFacts& nvrtc = cuda::nvrtc_facts();
  std::string version = sass::disassembler_version(program);
  if (nvrtc.major != 13 || nvrtc.minor != 0 || version != kDisassembler) {
    MESSAGE("skipped: the budgets are those of NVRTC 13.0 and nvdisasm "
            << kDisassembler << ", here are " << nvrtc.major << "." << nvrtc.minor << " and "
            << version);
    return;
  }
  std::string text;
  for (const Case& c : cases()) {
    text += c.name + "\n";
    for (int arch : c.archs) text += lines(c, arch);
  }
  check_expected("sass/budgets.txt", text);
}
