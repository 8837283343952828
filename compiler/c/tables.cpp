// Writes code tables as C functions: looked up, guessed by lines, or searched. Knows the plan and C's text.
#include "compiler/c/tables.hpp"

#include <fmt/format.h>

#include "compiler/c/ops.hpp"

namespace stepfuse::c {
namespace {

void emit_values(Text& out, std::string_view name, const std::vector<float>& values) {
  std::vector<std::string> texts;
  for (float v : values) texts.push_back(literal(Bits::of(v), DType::f32));
  out.array(fmt::format("static const float {}[{}] =", name, texts.size()), texts);
}

}  // namespace

void emit_table(Text& out, const plan::Table& t) {
  out.open(fmt::format("static inline float {}(int32_t code)", t.name), t.text);
  emit_values(out, "values", t.values);
  out.line(fmt::format("return values[sf_code(code, {})];", t.last()));
  out.close();
  out.open(fmt::format("static inline int32_t {}(float x)", t.bounds_name), t.text);
  emit_values(out, "bounds", t.bounds);
  if (t.guess) {
    auto number = [](float v) { return literal(Bits::of(v), DType::f32); };
    const plan::CodeGuess& g = *t.guess;
    emit_values(out, "slopes", g.slopes);
    emit_values(out, "offsets", g.offsets);
    out.line(fmt::format("x = sf_held(x, {}, {});", number(g.low), number(g.high)));
    out.line(
        fmt::format("const float y = fmaf(fabsf(x), {}, {});", number(g.scale), number(g.grain)));
    out.line(fmt::format("const uint32_t line = ((uint32_t)sf_i32_of_f32_bits(y) >> {}) % {};",
                         g.shift, g.slopes.size()));
    out.line("const float u = fmaf(y, slopes[line], offsets[line]);");
    out.line(fmt::format("const int32_t code = (int32_t)({} + (signbit(x) ? -u : u));",
                         number(g.center)));
    out.line("return code - (x < bounds[code] ? 1 : 0);");
  } else {
    out.line(
        fmt::format("return sf_code(sf_nearest(bounds, {}, x), {});", t.bounds.size(), t.last()));
  }
  out.close();
}

}  // namespace stepfuse::c
