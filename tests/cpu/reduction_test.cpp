// Reductions: every op, type and result granularity, every length around a border, shards, and the fold
// of piece results against the definition.
#include "ir/semantics/reduction.hpp"

#include <functional>
#include <numeric>
#include <random>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "ir/program/builder.hpp"
#include "ir/semantics/interpreter.hpp"
#include "runtime/cpu/fold.hpp"
#include "runtime/tables/partitions.hpp"
#include "tests/support/kernel_runner.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

struct Tables {
  std::vector<abi::Chunk> chunks;
  std::vector<abi::Tensor> tensors;
};

// Tensors of the given groups, with as many chunks as their index modulo 4: some have none.
Tables tables_of(const std::vector<uint32_t>& groups) {
  Tables t;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    t.tensors.push_back({groups[i], abi::kPresent, 0, 0, 0, 0, 0, 0, 0});
    for (uint32_t k = 0; k < i % 4; ++k) {
      t.chunks.push_back({i, 0, 1, static_cast<uint32_t>(t.chunks.size()), 0});
    }
  }
  return t;
}

std::vector<uint32_t> part(const Partition& p, uint32_t m) {
  std::vector<uint32_t> out;
  for (uint32_t i = p.begin[m]; i < p.begin[m + 1]; ++i) {
    out.push_back(p.members.empty() ? i : p.members[i]);
  }
  return out;
}

// Sum, extremes and any, of f32, i32 and bool elements, to every coarser granularity.
Program reduction_program() {
  Builder b("reductions");
  Value x = b.load(b.buffer("x", DType::f32, Access::in));
  Value i = b.load(b.buffer("i", DType::i32, Access::in));
  int number = 0;
  for (Granularity to : {per::step, per::group, per::tensor}) {
    for (Value v : {x, i}) {
      for (Op op : {Op::reduce_add, Op::reduce_max, Op::reduce_min}) {
        Value r = b.reduce(op, v, to);
        b.write(b.report("out" + std::to_string(number++), r.type()), r);
      }
    }
    Value r = b.reduce(Op::reduce_any, b.constant(DType::f32, 3) < x, to);
    b.write(b.report("out" + std::to_string(number++), r.type()), r);
  }
  return b.finish();
}

}  // namespace

TEST_CASE("reductions of every op, type and result granularity") {
  Program p = reduction_program();
  TestLayout layout{.group_count = 3};
  for (uint64_t size : {0, 1, 5, 100, 2048, 16384, 40000, 70000}) {
    layout.add({.size = size,
                .group = static_cast<int32_t>(size % 3),
                .present = size != 100,
                .shift = size % 5},
               {DType::f32, DType::i32});
  }
  for (const std::string& level : runnable_cpu_levels()) {
    CAPTURE(level);
    for (uint64_t seed : {1, 2}) {
      TestData input(p, layout, seed, seed > 1 ? Inputs::special : Inputs::normal);
      CHECK(compare_with_interpreter(p, input, {.level = level}) == "");
      CHECK(compare_with_interpreter(p, input, {.level = level}, 2) == "");
    }
  }
}

TEST_CASE("a tensor of every length around the borders of vectors, rows and pieces") {
  Builder b("lengths");
  BufferRef x_buffer = b.buffer("x", DType::f32, Access::inout);
  BufferRef h_buffer = b.buffer("h", DType::f16, Access::inout);
  Value x = b.load(x_buffer);
  Value h = b.cast(b.load(h_buffer), DType::f32);
  Value sum = b.reduce(Op::reduce_add, x * h);
  Value top = b.reduce(Op::reduce_max, h);
  b.store(x_buffer, x + sum, h < x);
  b.store(h_buffer, b.cast(h * sum, DType::f16));
  b.write(b.report("sum", sum.type()), sum);
  b.write(b.report("top", top.type()), top);
  Program p = b.finish();
  std::vector<uint64_t> lengths;
  for (uint64_t n = 1; n <= 70; ++n) lengths.push_back(n);
  for (uint64_t n : {1023, 1024, 1025, 2047, 2048, 2049, 16383, 16384, 16385, 32769}) {
    lengths.push_back(n);
  }
  for (const std::string& level : runnable_cpu_levels()) {
    CAPTURE(level);
    std::unique_ptr<KernelRunner> runner;
    CpuExecutor executor(2);
    for (uint64_t n : lengths) {
      CAPTURE(n);
      TestLayout layout;
      layout.add({.size = n, .shift = n % 16}, {DType::f32, DType::f16});
      TestData input(p, layout, n, Inputs::normal);
      if (!runner)
        runner = std::make_unique<KernelRunner>(p, input.step(), RunnerOptions{.level = level});
      TestData expected(input);
      interpret(p, expected.step());
      runner->run(input.step(), executor);
      CHECK(difference(p, expected, input).value_or("") == "");
    }
  }
}

TEST_CASE(
    "a shard counts elements from the full tensor, and lanes and pieces from its own first one") {
  Builder b("shard");
  Value x = b.load(b.buffer("x", DType::f32, Access::in));
  Value sum = b.reduce(Op::reduce_add, x);
  Value index = b.reduce(Op::reduce_max, b.element_index());
  b.write(b.report("sum", sum.type()), sum);
  b.write(b.report("index", index.type()), index);
  Program p = b.finish();
  for (uint64_t offset : {16384ULL, 5ULL, 2047ULL, 16000ULL, 123456ULL}) {
    TestLayout layout;
    for (uint64_t size : {50000, 100, 37})
      layout.add({.size = size, .offset = offset}, {DType::f32});
    TestData input(p, layout, offset, Inputs::normal);
    CHECK(compare_with_interpreter(p, input) == "");
  }
}

TEST_CASE("fold_array is the definition's fold, for any count") {
  std::mt19937_64 random(3);
  for (size_t count : {0, 1, 2, 3, 7, 100, 2047, 2048, 2049, 16384, 16385, 40000, 200000}) {
    CAPTURE(count);
    for (Op op : {Op::reduce_add, Op::reduce_max, Op::reduce_min}) {
      std::vector<float> values(count);
      std::vector<Bits> bits;
      for (float& v : values) {
        v = std::normal_distribution<float>()(random);
        bits.push_back(Bits::of(v));
      }
      float result = 0;
      fold_array(op, DType::f32, values.data(), count, &result);
      CHECK(Bits::of(result) == fold_values(op, DType::f32, bits));
    }
    std::vector<uint8_t> flags(count);
    if (count > 0) flags[count - 1] = 1;
    uint8_t any = 7;
    fold_array(Op::reduce_any, DType::boolean, flags.data(), count, &any);
    CHECK(any == (count > 0 ? 1 : 0));
  }
}

TEST_CASE("reductions of tensor values that are made of other such reductions' results") {
  Program p = parse(R"(step @chain {
    buffer @grad : f32 inout
    report @shares : <f32>
    report @rest : f32
    %g = load @grad : [f32]
    %sum = reduce_add %g : <f32>
    %group = reduce_add %sum : {f32}
    %share = div %sum, %group : <f32>
    %most = reduce_max %share : f32
    %left = sub %most, %share : <f32>
    %rest = reduce_add %left : f32
    %mean = div %group, %rest : {f32}
    %way = mul %mean, %left : <f32>
    %whole = reduce_min %way : {f32}
    %new = mul %g, %whole : [f32]
    store @grad, %new
    write @shares, %share
    write @rest, %rest
  })");
  TestLayout layout{.group_count = 3};
  for (int t = 0; t < 40; ++t) {
    layout.add({.size = static_cast<uint64_t>(t % 5) * 700, .group = t % 3, .present = t % 7 != 3},
               signature_of(p));
  }
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    TestData input(p, layout, 3, Inputs::normal);
    CHECK(compare_with_interpreter(p, input, {.form = form}) == "");
    CHECK(compare_with_interpreter(p, input, {.form = form}, 2) == "");
  }
}

TEST_CASE("partitions: the members of each coarser member, in bound order") {
  using Members = std::vector<uint32_t>;
  Tables t = tables_of({2, 0, 2, 0, 0});  // chunks: none, one, two, three, none; nobody in group 1
  Partitions parts(t.chunks, t.tensors, 4);
  CHECK(part(parts.of(per::tensor, per::group), 0) == Members{1, 3, 4});
  CHECK(part(parts.of(per::tensor, per::group), 1) == Members{});
  CHECK(part(parts.of(per::tensor, per::group), 2) == Members{0, 2});
  CHECK(part(parts.of(per::element, per::group), 0) == Members{0, 3, 4, 5});
  CHECK(part(parts.of(per::element, per::group), 2) == Members{1, 2});
  CHECK(part(parts.of(per::element, per::tensor), 3) == Members{3, 4, 5});
  CHECK(part(parts.of(per::element, per::tensor), 4) == Members{});
  CHECK(part(parts.of(per::group, per::step), 0) == Members{0, 1, 2, 3});
  CHECK(parts.of(per::tensor, per::group).count() == 4);
  CHECK(parts.of(per::element, per::step).count() == 1);
  CHECK(parts.of(per::element, per::tensor).members.empty());  // as they are numbered
}

TEST_CASE("a part's result folds its own members, and those only") {
  std::mt19937_64 random(4);
  std::vector<uint32_t> groups(20'000);
  for (uint32_t& g : groups) g = static_cast<uint32_t>(random() % 3);
  Tables t = tables_of(groups);
  Partitions parts(t.chunks, t.tensors, 4);  // nobody is in group 3
  abi::Context c{};
  parts.describe(&c);
  std::vector<double> values(groups.size());
  for (double& v : values) v = std::normal_distribution<double>()(random);
  std::vector<double> results(4, -1);
  void* slots = values.data();
  void* out = results.data();
  c.slots = &slots;
  c.results = &out;
  auto fold = [&](Op op) {
    const abi::Partition& parts = c.parts[abi::partition_index(2, 1)];
    fold_slots(c, 0, op, DType::f64, parts, 0, parts.count);
  };
  for (Op op : {Op::reduce_add, Op::reduce_max, Op::reduce_min}) {
    fold(op);
    for (uint32_t g = 0; g < 4; ++g) {
      std::vector<Bits> own;
      for (size_t i = 0; i < groups.size(); ++i) {
        if (groups[i] == g) own.push_back(Bits::of(values[i]));
      }
      CHECK(Bits::of(results[g]) == fold_values(op, DType::f64, own));
    }
  }
  // A tensor that counts for the wrong group is seen in both groups' sums.
  fold(Op::reduce_add);
  std::vector<double> right = results;
  t.tensors[7].group = (t.tensors[7].group + 1) % 3;
  parts = Partitions(t.chunks, t.tensors, 4);
  parts.describe(&c);
  fold(Op::reduce_add);
  CHECK(std::inner_product(results.begin(), results.end(), right.begin(), 0, std::plus<>(),
                           std::not_equal_to<>()) == 2);
}
