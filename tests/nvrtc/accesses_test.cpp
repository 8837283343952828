// Every golden kernel on two archs or, in a long run, on all: no spill, registers within its launch bounds, and array
// accesses as its schedule says: whole vectors in global memory, in the expected number.
#include "tests/nvrtc/accesses.hpp"

#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "compiler/abi.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/plan/lower.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "tests/nvrtc/archs.hpp"
#include "tests/support/golden_cases.hpp"
#include "tests/support/needs_nvrtc.hpp"

using namespace stepfuse;
using namespace stepfuse::cuda;
using namespace stepfuse::testing;

namespace {

std::string compile_ptx(const std::string& text, int arch) {
  return nvrtc_compile({.text = text, .arch = arch, .kind = CodeKind::ptx}).code;
}

Schedule schedule_of(const GoldenCase& c, Form form) {
  return make_schedule(optimize(c.program, c.signatures),
                       {.form = form, .signatures = c.signatures});
}

void check_kernel(const Schedule& schedule, const CudaOptions& options, int never_whole = 0) {
  INFO(options.arch, " ", name(schedule.form), " ", print(options));
  std::string text = emit_cuda(lower(schedule), options);
  CompiledCode cubin = nvrtc_compile({.text = text, .arch = options.arch});
  CHECK(cubin.log == "");
  CHECK(cubin.kernels.size() == schedule.kernels.size());
  int limit = 65536 / (static_cast<int>(abi::kBlockThreads) * options.min_blocks) / 8 * 8;
  for (const KernelResources& k : cubin.kernels) {
    INFO(k.kernel);
    CHECK_FALSE(k.spills());
    CHECK(k.stack_bytes == 0);
    CHECK(k.registers <= limit);
  }
  std::string ptx = compile_ptx(text, options.arch);
  CHECK(ptx.find(".local") == std::string::npos);
  Accesses expected = expected_accesses(schedule, options);
  if (never_whole != 0) expected["st.global.v4.b32"] -= never_whole;
  CHECK(difference(expected, accesses_of(ptx)) == "");
}

// The complaint about a kernel with a fault planted in its text.
std::string complaint(const std::string& from, const std::string& to) {
  static const Schedule schedule = schedule_of(golden_cases()[2], Form::fused);
  CudaOptions options;
  std::string text = emit_cuda(lower(schedule), options);
  size_t at = text.find(from);
  REQUIRE_MESSAGE(at != text.npos, from);
  for (; at != text.npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  return difference(expected_accesses(schedule, options), accesses_of(compile_ptx(text, 90)));
}
bool has(const std::string& text, const std::string& what) { return text.find(what) != text.npos; }

}  // namespace

TEST_CASE(
    "golden kernels: no spills, registers within launch bounds, accesses as the schedule says") {
  STEPFUSE_NEEDS_NVRTC();
  size_t kernels = 0;
  for (const GoldenCase& c : golden_cases()) {
    INFO(c.name);
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      bool kept = std::find(c.kernels.begin(), c.kernels.end(), form) != c.kernels.end();
      if (!kept && form != Form::fused) continue;
      Schedule schedule = schedule_of(c, form);
      // In "granularities", a false %calm makes %store false. The compiler sees that for both signatures,
      // and drops the access to tiles that are stored whole.
      int never_whole = c.name == "granularities" ? 2 : 0;
      for (int arch : archs_for(kernels)) check_kernel(schedule, {.arch = arch}, never_whole);
      ++kernels;
    }
  }
  CHECK(kernels >= 6);
}

TEST_CASE("golden kernels: the same with other options") {
  STEPFUSE_NEEDS_NVRTC();
  Schedule amp = schedule_of(golden_cases()[2], Form::fused);
  for (const char* option : {"unroll=2,min-blocks=2", "cache=streaming", "cache=evict-first",
                             "reverse=off", "access=256", "access=256,unroll=2,min-blocks=1"}) {
    check_kernel(amp, with_options({.arch = 100}, option));
  }
  Schedule sgd = schedule_of(golden_cases()[0], Form::fused);
  check_kernel(sgd, with_options({.arch = 120}, "access=256"));
}

TEST_CASE("what is expected of the mixed-precision AdamW, counted by hand") {
  Schedule amp = schedule_of(golden_cases()[2], Form::fused);
  // The norm reads 4 whole tiles of 8 f16 gradients, or 1 that may not be. The update reads a tile of 4 f16
  // gradients and of 4 f32 master weights and two moments, and writes these, the f16 copy and zeros; a
  // skipped step writes 2 tiles of 8 f16 zeros: each known to be whole, or not.
  CHECK(expected_accesses(amp, {}) == Accesses{{"ld.global.v4.b32", (4 + 1) + 2 * 3},
                                               {"ld.global.v2.b32", 2 * 1},
                                               {"st.global.v4.b32", 2 * (3 + 2)},
                                               {"st.global.v2.b32", 2 * 2},
                                               {"ld.global.u16 element", 8 + 4},
                                               {"ld.global.b32 element", 12},
                                               {"st.global.u16 element", 8 + 16},
                                               {"st.global.b32 element", 12}});
}

TEST_CASE("planted faults: scalar and generic accesses are named") {
  STEPFUSE_NEEDS_NVRTC();
  CHECK(complaint("SF_ACCESS(Plain,", "SF_ACCESS(Plain,") == "");
  std::string scalar =
      complaint("if (u32(k) < room) {", "if (false) {");  // where not all are whole
  CHECK_MESSAGE(has(scalar, "ld.global.v4.b32: 11 expected, 7 found"), scalar);
  CHECK_MESSAGE(has(scalar, "ld.global.v2.b32: 2 expected, 1 found"), scalar);
  std::string narrow = complaint("\".v4.b32 {%0, %1, %2, %3}, [%4]\"",
                                 "\".v2.b32 {%0, %1}, [%4]; ld.global.v2.b32 {%2, %3}, [%4+8]\"");
  CHECK_MESSAGE(has(narrow, "ld.global.v4.b32: 11 expected, 0 found"), narrow);
  CHECK_MESSAGE(has(narrow, "ld.global.v2.b32: 2 expected, 24 found"), narrow);
  std::string generic = complaint("\"ld.global\" kLoad", "\"ld\" kLoad");
  CHECK_MESSAGE(has(generic, "ld.v4 generic: 0 expected, 11 found"), generic);
  // The code for a pointer whose state space the compiler does not know.
  std::string pointer = complaint("Access::template store<kWords>(at, in + u * kWords);",
                                  "for (i32 w = 0; w < kWords; ++w) "
                                  "reinterpret_cast<u32*>(at)[w] = in[u * kWords + w];");
  CHECK_MESSAGE(has(pointer, "st.global.v4.b32: 10 expected, 5 found"), pointer);
}
