// Code tables of many sizes on every processor level: values, bounds between them and what lies beside,
// CPU against interpreter.
#include <cmath>

#include <doctest/doctest.h>

#include "ir/builder.hpp"
#include "ir/code_table.hpp"
#include "tests/support/kernel_runner.hpp"
#include "tests/support/rng.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

std::vector<float> rising(size_t count, Rng& rng) {
  std::vector<float> values = {-3};
  while (values.size() < count) {
    float next = values.back() + static_cast<float>(std::ldexp(rng.unit(), rng.between(-20, -3)));
    values.push_back(next > values.back() ? next : std::nextafter(values.back(), 1e9F));
  }
  return values;
}

// The bounds themselves come out of a table, and their neighbours by their bits.
Program program_of(const std::vector<float>& values) {
  Builder b("tables");
  TableRef table = b.table("map", values);
  std::vector<float> bounds = table_bounds(values);
  bounds.push_back(100);  // a table has two values at least
  TableRef of_bounds = b.table("bounds", bounds);
  Value place = b.element_index();
  Value x = b.load(b.buffer("x", DType::f32, Access::in));
  Value bound = b.lookup(of_bounds, place);
  Value bits = b.bitcast(bound, DType::i32);
  Value one = b.constant(DType::i32, 1);
  int number = 0;
  auto keep = [&](Value v) {
    BufferRef out =
        b.buffer("out" + std::to_string(number++), v.type().dtype, Access::out, v.type().block);
    b.store(out, v);
  };
  keep(b.nearest(table, x));
  keep(b.nearest(table, bound));
  keep(b.nearest(table, b.bitcast(bits + one, DType::f32)));
  keep(b.nearest(table, b.bitcast(bits - one, DType::f32)));
  keep(b.lookup(table, place));
  keep(b.lookup(table, b.bitcast(x, DType::i32)));
  keep(b.lookup(table, b.nearest(table, b.reduce_blocks(Op::reduce_max, x, 32))));
  StateRef scale = b.state("scale", {DType::f32, Domain::tensor});
  b.write(scale, b.lookup(table, b.nearest(table, b.read(scale))));
  return b.finish();
}

}  // namespace

TEST_CASE("code tables of many sizes, on their bounds and beside them") {
  Rng rng(5);
  for (size_t count : {2, 3, 16, 40, 256}) {
    Program p = program_of(rising(count, rng));
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
