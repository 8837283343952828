// Builds steps that look up in code tables. Knows ir.
#include "tests/support/table_program.hpp"

#include <cmath>
#include <string>

#include "ir/formats/code_table.hpp"
#include "ir/program/builder.hpp"

namespace stepfuse::testing {

std::vector<float> rising_values(size_t count, Rng& rng) {
  std::vector<float> values = {-3};
  while (values.size() < count) {
    float next = values.back() + static_cast<float>(std::ldexp(rng.unit(), rng.between(-20, -3)));
    values.push_back(next > values.back() ? next : std::nextafter(values.back(), 1e9F));
  }
  return values;
}

Program table_program(const std::vector<float>& values) {
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
        b.buffer("out" + std::to_string(number++), v.type().dtype, Access::out, v.type().at);
    b.store(out, v);
  };
  keep(b.nearest(table, x));
  keep(b.nearest(table, bound));
  keep(b.nearest(table, b.bitcast(bits + one, DType::f32)));
  keep(b.nearest(table, b.bitcast(bits - one, DType::f32)));
  keep(b.lookup(table, place));
  keep(b.lookup(table, b.bitcast(x, DType::i32)));
  keep(b.lookup(table, b.nearest(table, b.reduce(Op::reduce_max, x, per::block(32)))));
  StateRef scale = b.state("scale", {DType::f32, per::tensor});
  b.write(scale, b.lookup(table, b.nearest(table, b.read(scale))));
  return b.finish();
}

}  // namespace stepfuse::testing
