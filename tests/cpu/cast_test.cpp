// The conversions of every low-precision float, exhaustively: all patterns up, and down all
// neighbours, ties and subnormals around each of them, on every level that this machine runs.
#include <bit>
#include <cmath>

#include <doctest/doctest.h>

#include "ir/program/builder.hpp"
#include "ir/semantics/narrow.hpp"
#include "tests/support/kernel_runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

uint32_t patterns_of(DType t) { return static_cast<uint32_t>(info(t).patterns()); }

Program conversion(DType from, DType to) {
  Builder b("convert");
  BufferRef source = b.buffer("from", from, Access::in);
  BufferRef target = b.buffer("to", to, Access::out);
  b.store(target, b.cast(b.load(source), to));
  return b.finish();
}

// Each number, what lies just below and above it, the ties half way to the next one with what
// lies beside them, and the quarters.
std::vector<float> neighbourhood(DType t) {
  std::vector<float> values;
  auto around = [&](float v) {
    uint32_t u = std::bit_cast<uint32_t>(v);
    for (uint32_t d : {-2, -1, 0, 1, 2}) values.push_back(std::bit_cast<float>(u + d));
  };
  for (uint32_t h = 0; h < patterns_of(t); ++h) {
    float v = widen(h, t);
    around(v);
    float next = widen((h + 1) % patterns_of(t), t);
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

TEST_CASE("all patterns of the low-precision floats widen exactly") {
  for (DType t : kLowPrecision) {
    Program p = conversion(t, DType::f32);
    size_t count = patterns_of(t);
    std::vector<char> from(count * size_of(t));
    for (size_t i = 0; i < count; ++i) store_bits(&from[i * size_of(t)], t, {i});
    std::vector<float> to(count);
    StepData data;
    data.tensors = {{.size = count, .data = {from.data(), to.data()}, .dtypes = {t, DType::f32}}};
    for (const std::string& level : runnable_cpu_levels()) {
      CAPTURE(level);
      CAPTURE(name(t));
      KernelRunner(p, data, {.level = level}).run(data, CpuExecutor(1));
      int wrong = 0;
      for (uint32_t i = 0; i < count; ++i) {
        float want = widen(i, t);
        bool same = std::isnan(want)
                        ? std::isnan(to[i])
                        : std::bit_cast<uint32_t>(want) == std::bit_cast<uint32_t>(to[i]);
        wrong += same ? 0 : 1;
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("narrowing rounds to nearest even around every pattern, and NaN becomes one") {
  for (DType t : kLowPrecision) {
    Program p = conversion(DType::f32, t);
    std::vector<float> from = neighbourhood(t);
    std::vector<char> to(from.size() * size_of(t));
    StepData data;
    data.tensors = {
        {.size = from.size(), .data = {from.data(), to.data()}, .dtypes = {DType::f32, t}}};
    for (const std::string& level : runnable_cpu_levels()) {
      CAPTURE(level);
      CAPTURE(name(t));
      KernelRunner(p, data, {.level = level}).run(data, CpuExecutor(1));
      int wrong = 0;
      for (size_t i = 0; i < from.size(); ++i) {
        wrong += load_bits(&to[i * size_of(t)], t).raw == narrow(from[i], t) ? 0 : 1;
      }
      CHECK(wrong == 0);
      CHECK(from.size() > 10 * patterns_of(t));
    }
  }
}
