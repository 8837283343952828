// Code tables of many sizes on every processor level: values, bounds between them and what lies beside,
// CPU against interpreter.
#include <algorithm>
#include <bit>
#include <cmath>

#include <doctest/doctest.h>

#include <stepfuse/format.hpp>

#include "ir/formats/code_table.hpp"
#include "ir/program/builder.hpp"
#include "tests/support/kernel_runner.hpp"
#include "tests/support/long_run.hpp"
#include "tests/support/rng.hpp"
#include "tests/support/signatures.hpp"
#include "tests/support/table_program.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Codes of the floats whose bits are the elements' positions.
Program codes_of_all(const std::vector<float>& values) {
  Builder b("codes");
  TableRef table = b.table("map", values);
  Value x = b.bitcast(b.element_index(), DType::f32);
  b.store(b.buffer("code", DType::u8, Access::out), b.cast(b.nearest(table, x), DType::u8));
  return b.finish();
}

// How many of them are not the table's.
uint64_t count_wrong(const std::vector<unsigned char>& codes, uint64_t first,
                     const std::vector<float>& values, const std::vector<float>& bounds) {
  uint64_t wrong = 0;
  for (uint64_t at = 0; at < codes.size();) {
    // Along positive floats codes rise, along negative ones they fall: where the next one begins is
    // the end of a run.
    auto bits = static_cast<uint32_t>(first + at);
    auto x = std::bit_cast<float>(bits);
    int32_t code = nearest_code(values, x);
    uint64_t length = codes.size() - at;
    if (!std::isnan(x)) {
      bool falls = std::signbit(x);
      auto k = static_cast<size_t>(code);
      bool is_last = falls ? k == 0 : k == bounds.size();
      float end = is_last ? std::copysign(INFINITY, x) : falls ? bounds[k - 1] : bounds[k];
      if (falls ? end < 0 : end > 0) {
        // The first float beyond a falling run lies below its bound, the one beyond a rising run is
        // the next bound.
        uint64_t next = std::bit_cast<uint32_t>(end) + (falls || is_last ? 1ULL : 0ULL);
        length = std::min(length, next - bits);
      } else {
        length = std::min<uint64_t>(length, 0x80000000ULL - (bits & 0x7fffffffULL));
      }
    }
    auto from = codes.begin() + static_cast<std::ptrdiff_t>(at);
    auto right = std::count(from, from + static_cast<std::ptrdiff_t>(length),
                            static_cast<unsigned char>(code));
    wrong += length - static_cast<uint64_t>(right);
    at += length;
  }
  return wrong;
}

}  // namespace

// All floats of 2^-23 … 2, and of the others those of a few exponents; in a long run all.
TEST_CASE("the formats' codes of all floats are the tables'") {
  constexpr uint64_t kCount = 1ULL << 23;
  bool all = is_long_run();
  for (const char* name : {"dyn8", "dyn8u", "dyn4", "lin4"}) {
    const std::vector<float> values = built_in_format(name).encode.tables.at(0).values;
    const std::vector<float> bounds = table_bounds(values);
    Program p = codes_of_all(values);
    std::vector<unsigned char> codes(kCount);
    StepData data;
    data.tensors = {{.size = kCount, .data = {codes.data()}, .dtypes = {DType::u8}}};
    for (const std::string& level : runnable_cpu_levels()) {
      KernelRunner runner(p, data, {.level = level});
      uint64_t wrong = 0;
      for (uint64_t block = 0; block < 512; ++block) {
        uint64_t exponent = block % 256;
        bool is_near = exponent >= 104 && exponent < 128;
        bool is_whole = all || (level == "host" && is_near);
        if (!is_whole && !is_near && exponent % 51 != 0) continue;
        size_t count = is_whole ? kCount : 1 << 16;
        codes.resize(count);
        data.tensors[0].size = count;
        data.tensors[0].data = {codes.data()};
        data.tensors[0].offset = block * kCount;
        data.tensors[0].full_size = data.tensors[0].offset + count;
        runner.run(data, CpuExecutor(2));
        wrong += count_wrong(codes, block * kCount, values, bounds);
      }
      CAPTURE(name);
      CAPTURE(level);
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("code tables of many sizes, on their bounds and beside them") {
  Rng rng(5);
  for (size_t count : {2, 3, 16, 40, 256}) {
    Program p = table_program(rising_values(count, rng));
    TestLayout layout;
    layout.add({.size = 700}, signature_of(p));
    layout.add({.size = 77, .shift = 3}, signature_of(p));
    for (const std::string& level : runnable_cpu_levels()) {
      CAPTURE(level);
      CAPTURE(count);
      TestData input(p, layout, count, count == 40 ? Inputs::special : Inputs::normal);
      CHECK(compare_with_interpreter(p, input, {.level = level}) == "");
    }
  }
}
