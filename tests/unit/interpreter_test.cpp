// The interpreter on hand-computed cases: granularities, absent tensors, states, the reduction order.
#include "ir/semantics/interpreter.hpp"

#include <limits>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "ir/semantics/narrow.hpp"
#include "ir/semantics/reduction.hpp"

using namespace stepfuse;

TEST_CASE("a step over two tensors, one absent") {
  Program p = parse(R"(step @s {
    buffer @w : f32 inout
    state @step : <i64>
    state @seen : i32
    report @sum : f32
    arg %lr : {f32}
    %w = load @w : [f32]
    %sum = reduce_add %w : f32
    %here = present : <bool>
    %one = const 1 : i32
    %zero = const 0 : i32
    %count = select %here, %one, %zero : <i32>
    %seen = reduce_add %count : i32
    %d = mul %w, %lr : [f32]
    %d2 = mul %d, %sum : [f32]
    store @w, %d2
    %t = read @step : <i64>
    %one64 = const 1 : i64
    %t1 = add %t, %one64 : <i64>
    write @step, %t1
    write @seen, %seen
    write @sum, %sum
  })");
  std::vector<float> a = {1, 2, 3};
  std::vector<float> b = {10};
  std::vector<float> c = {5, 6};
  StepData data;
  data.group_count = 2;
  data.tensors = {{.size = 3, .group = 1, .data = {a.data()}, .dtypes = {DType::f32}},
                  {.size = 1, .present = false, .data = {b.data()}, .dtypes = {DType::f32}},
                  {.size = 2, .data = {c.data()}, .dtypes = {DType::f32}}};
  data.args = {{Bits::of(2.0F), Bits::of(0.5F)}};
  data.states = {{Bits::of(int64_t{7}), Bits::of(int64_t{8}), Bits::of(int64_t{9})},
                 {Bits::of(int32_t{0})},
                 {Bits::of(0.0F)}};
  interpret(p, data);
  CHECK(data.states[2][0].f32() == 17.0F);  // 1+2+3 + 5+6; the absent 10 is not counted
  CHECK(data.states[1][0].i32() == 2);
  CHECK(a == std::vector<float>{8.5F, 17, 25.5F});
  CHECK(b == std::vector<float>{10});
  CHECK(c == std::vector<float>{170, 204});
  CHECK(data.states[0][0].i64() == 8);
  CHECK(data.states[0][1].i64() == 8);
  CHECK(data.states[0][2].i64() == 10);
}

TEST_CASE("lanes, then folds: the order shows in the bits") {
  // 1 in lane 0 twice and 2^-24 in lane 1: (1 + 1) + 2^-24, never (1 + 2^-24) + 1.
  std::vector<float> w(2049, 0.0F);
  w[0] = 1;
  w[1] = 0x1p-23F;
  w[2048] = 1;
  Program p = parse(R"(step @s {
    buffer @w : f32 in
    report @sum : f32
    %w = load @w : [f32]
    %sum = reduce_add %w : f32
    write @sum, %sum
  })");
  StepData data;
  data.tensors = {{.size = w.size(), .data = {w.data()}, .dtypes = {DType::f32}}};
  data.states = {{Bits{}}};
  interpret(p, data);
  CHECK(data.states[0][0].f32() == 2.0F);

  // 2048 lanes, each in rising order, then halves onto halves.
  w.resize(5000);
  for (size_t i = 0; i < w.size(); ++i) w[i] = 1 / static_cast<float>(i + 1);
  data.tensors[0].data = {w.data()};
  for (size_t size : {1, 2, 3, 8, 100, 2047, 2048, 2049, 4100, 5000}) {
    CAPTURE(size);
    std::vector<float> sums(2048, 0.0F);
    for (size_t i = 0; i < size; ++i) sums[i % 2048] += w[i];
    for (size_t half = 1024; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
    }
    data.tensors[0].size = size;
    interpret(p, data);
    CHECK(data.states[0][0].f32() == sums[0]);
  }
}

TEST_CASE("a bound buffer is loaded and stored in each tensor's own dtype") {
  Program p = parse(R"(step @s {
    buffer @g : f16|bf16 inout
    %g = load @g : [@g]
    %g32 = cast %g : [f32]
    %half = const 0.5 : f32
    %h = mul %g32, %half : [f32]
    %out = cast %h : [@g]
    store @g, %out
  })");
  std::vector<uint16_t> a = {0x4200};
  std::vector<uint16_t> b = {0x4040};
  StepData data;
  data.tensors = {{.size = 1, .data = {a.data()}, .dtypes = {DType::f16}},
                  {.size = 1, .data = {b.data()}, .dtypes = {DType::bf16}}};
  interpret(p, data);
  CHECK(widen(a[0], DType::f16) == 1.5F);
  CHECK(widen(b[0], DType::bf16) == 1.5F);
}

TEST_CASE("a reduction over no elements gives the identity of its operation") {
  Program p = parse(R"(step @s {
    buffer @w : f32 inout
    report @sum : f32
    report @most : f32
    report @least : f32
    report @any : bool
    %w = load @w : [f32]
    %sum = reduce_add %w : f32
    %most = reduce_max %w : f32
    %least = reduce_min %w : f32
    %large = lt 1, %w : [bool]
    %any = reduce_any %large : bool
    store @w, %w
    write @sum, %sum
    write @most, %most
    write @least, %least
    write @any, %any
  })");
  auto reduced = [&](std::vector<float> w) {
    StepData data;
    data.tensors = {{.size = w.size(), .data = {w.data()}, .dtypes = {DType::f32}}};
    data.states = {{Bits::of(5.0F)}, {Bits::of(5.0F)}, {Bits::of(5.0F)}, {Bits::of(true)}};
    interpret(p, data);
    return data.states;
  };
  constexpr float kInf = std::numeric_limits<float>::infinity();
  auto empty = reduced({});
  CHECK(empty[0][0] == Bits::of(0.0F));
  CHECK(empty[1][0] == Bits::of(-kInf));
  CHECK(empty[2][0] == Bits::of(kInf));
  CHECK(empty[3][0] == Bits::of(false));
  CHECK(reduced({-kInf, -kInf})[1][0] == Bits::of(-kInf));
  CHECK(reduced({kInf, kInf})[2][0] == Bits::of(kInf));
}
