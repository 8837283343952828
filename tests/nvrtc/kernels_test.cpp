// Every kind of generated kernel compiles without warning or spill, within its launch bounds: for two archs or, in a
// long run, for all.
#include <map>
#include <regex>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/recipes.hpp>

#include "compiler/abi.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "tests/nvrtc/archs.hpp"
#include "tests/support/needs_nvrtc.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;
using namespace stepfuse::cuda;

namespace {

struct Case {
  std::string name;
  RecipeOptions options;
  std::vector<DType> grads = {DType::f32};  // one signature each
  Form form = Form::fused;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> list = {
      {"plain f32", {}},
      {"f32, scaler, clip", {.loss_scale = LossScale::dynamic, .clip = Clip::l2}},
      {"f16, master, scaler, clip, zeroing",
       {.grad = DType::f16,
        .master = true,
        .loss_scale = LossScale::dynamic,
        .clip = Clip::l2,
        .zero_grad = true},
       {DType::f16}},
      {"bf16, master, bf16 moments, clip",
       {.grad = DType::bf16, .moments = DType::bf16, .master = true, .clip = Clip::l2},
       {DType::bf16}},
      {"amsgrad, clip", {.clip = Clip::l2, .amsgrad = true}},
      {"inf norm", {.clip = Clip::inf}},
      {"a norm for each group",
       {.loss_scale = LossScale::dynamic, .clip = Clip::l2, .clip_per_group = true}},
      {"three storage types",
       {.grad = DTypeSet(DType::f16) | DType::bf16 | DType::f32, .master = true, .clip = Clip::l2},
       {DType::f16, DType::bf16, DType::f32}},
      {"split", {.loss_scale = LossScale::dynamic, .clip = Clip::l2}, {DType::f32}, Form::split},
      {"unfused",
       {.grad = DType::f16, .master = true, .loss_scale = LossScale::dynamic, .clip = Clip::l2},
       {DType::f16},
       Form::unfused},
  };
  return list;
}

Variant variant_of(const Case& c) {
  Program program = make_recipe("adamw", c.options);
  std::vector<Signature> signatures = signatures_of(program, c.grads);
  return make_variant(optimize(program, signatures), signatures, c.form);
}

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

// Registers per thread under the launch bounds of the text.
int register_limit(const CudaOptions& options) {
  return 65536 / (static_cast<int>(abi::kBlockThreads) * options.min_blocks) / 8 * 8;
}

}  // namespace

TEST_CASE("kernels compile without warning or spill, and some of them for each arch") {
  STEPFUSE_NEEDS_NVRTC();
  size_t kernels = 0;
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    CudaOptions options;
    std::string text = emit_cuda(variant_of(c).plan, options);
    CHECK(text.find("#include") == std::string::npos);
    for (int arch : archs_for(kernels++)) {
      CAPTURE(arch);
      CompiledCode code = nvrtc_compile({.text = text, .arch = arch});
      CHECK(code.log == "");
      CHECK(code.kernels.size() == variant_of(c).plan.kernels.size());
      for (const KernelResources& k : code.kernels) {
        CAPTURE(k.kernel);
        CHECK_FALSE(k.spills());
        CHECK(k.stack_bytes == 0);
        CHECK(k.registers <= register_limit(options));
        MESSAGE(fmt::format("{}: sm_{} {} {} registers, {} spilled, {:.0f} ms", c.name, arch,
                            k.kernel, k.registers, k.spill_store_bytes, code.milliseconds));
      }
    }
  }
}

TEST_CASE("a fused step is one kernel") {
  STEPFUSE_NEEDS_NVRTC();
  CompiledCode ptx = nvrtc_compile(
      {.text = emit_cuda(variant_of(cases()[1]).plan), .arch = 90, .kind = CodeKind::ptx});
  CHECK(count(ptx.code, ".visible .entry ") == 1);
  CHECK(count(ptx.code, ".local") == 0);
}

TEST_CASE("element code holds no double") {
  STEPFUSE_NEEDS_NVRTC();
  // All f64 values are uniform, so that no buffer access has this type.
  CompiledCode ptx = nvrtc_compile(
      {.text = emit_cuda(variant_of(cases()[2]).plan), .arch = 90, .kind = CodeKind::ptx});
  CHECK(count(ptx.code, "ld.global.v2.f64") == 0);
  CHECK(count(ptx.code, "st.global.v2.f64") == 0);
  CHECK(count(ptx.code, "st.global.f64") == 0);
}
