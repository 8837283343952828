// The 16-bit conversions, exhaustively: all patterns up, and down all neighbours, ties and
// subnormals around each of them, on every level that this machine runs.
#include <bit>
#include <cmath>

#include <doctest/doctest.h>

#include "ir/builder.hpp"
#include "ir/float16.hpp"
#include "tests/cpu/kernel_runner.hpp"

using namespace stepfuse;

namespace {

struct Format {
  DType dtype;
  float (*widen)(uint16_t);
  uint16_t (*narrow)(float);
};
constexpr Format kFormats[] = {{DType::f16, f16_to_f32, f32_to_f16},
                               {DType::bf16, bf16_to_f32, f32_to_bf16}};

Program conversion(DType from, DType to) {
  Builder b("convert");
  BufferRef source = b.buffer("from", from, Access::in);
  BufferRef target = b.buffer("to", to, Access::out);
  b.store(target, b.cast(b.load(source), to));
  return b.finish();
}

// Each 16-bit value, what lies just below and above it, the ties half way to the next one with what
// lies beside them, and the quarters.
std::vector<float> neighbourhood(const Format& f) {
  std::vector<float> values;
  auto around = [&](float v) {
    uint32_t u = std::bit_cast<uint32_t>(v);
    for (uint32_t d : {-2, -1, 0, 1, 2}) values.push_back(std::bit_cast<float>(u + d));
  };
  for (uint32_t h = 0; h < 65536; ++h) {
    float v = f.widen(static_cast<uint16_t>(h));
    around(v);
    float next = f.widen(static_cast<uint16_t>(h + 1));
    if (!std::isfinite(v) || !std::isfinite(next)) continue;
    around(v + (next - v) / 2);
    around(v + (next - v) / 4);
  }
  for (uint32_t u : {0x477fefffU, 0x477ff000U, 0x477ff001U, 0x7f7fffffU, 0x7f7f8000U, 0x7f800001U,
                     0xffffffffU, 0x7fc00000U, 0x00000001U, 0x80000001U, 0x33000000U, 0x33000001U,
                     0xb3000000U, 0x00007fffU, 0x00008000U, 0x00008001U}) {
    values.push_back(std::bit_cast<float>(u));
  }
  return values;
}

}  // namespace

TEST_CASE("all 65,536 patterns widen exactly") {
  for (const Format& f : kFormats) {
    Program p = conversion(f.dtype, DType::f32);
    std::vector<uint16_t> from(65536);
    for (uint32_t i = 0; i < 65536; ++i) from[i] = static_cast<uint16_t>(i);
    std::vector<float> to(65536);
    StepData data;
    data.tensors = {
        {.size = 65536, .data = {from.data(), to.data()}, .dtypes = {f.dtype, DType::f32}}};
    for (const std::string& level : runnable_cpu_levels()) {
      CAPTURE(level);
      CAPTURE(name(f.dtype));
      KernelRunner(p, data, {.level = level}).run(data, CpuExecutor(1));
      int wrong = 0;
      for (uint32_t i = 0; i < 65536; ++i) {
        float want = f.widen(from[i]);
        bool same = std::isnan(want)
                        ? std::isnan(to[i])
                        : std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(to[i]);
        wrong += same ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("narrowing rounds to nearest even around every pattern, and NaN becomes 0x7FFF") {
  for (const Format& f : kFormats) {
    Program p = conversion(DType::f32, f.dtype);
    std::vector<float> from = neighbourhood(f);
    std::vector<uint16_t> to(from.size());
    StepData data;
    data.tensors = {
        {.size = from.size(), .data = {from.data(), to.data()}, .dtypes = {DType::f32, f.dtype}}};
    for (const std::string& level : runnable_cpu_levels()) {
      CAPTURE(level);
      CAPTURE(name(f.dtype));
      KernelRunner(p, data, {.level = level}).run(data, CpuExecutor(1));
      int wrong = 0;
      for (size_t i = 0; i < from.size(); ++i) wrong += to[i] == f.narrow(from[i]) ? 0 : 1;
      CHECK(wrong == 0);
      CHECK(from.size() > 500000);
    }
  }
}
