// Builds the reports with a value per tensor. Knows ir only.
#include "ir/recipes/layers.hpp"

#include <map>
#include <string>

namespace stepfuse::recipes {
namespace {

void write(Context& c, const std::string& name, Value value) {
  c.b.write(c.b.report("layer_" + name, value.type()), value);
}

// The reduced values have names that no formula uses: ranks add them up after the step.
Value norm(Context& c, Value v, const std::string& name) {
  Value square = (v * v).named("layer_" + name + "_square");
  Value sum = c.b.reduce(Op::reduce_add, square, per::tensor);
  return sqrt(sum.named("layer_" + name + "_sum")).named("layer_" + name + "_norm");
}

// The sum is i32 and is read without a sign, since elements have no i64.
Value count(Context& c, Value condition, const std::string& name) {
  Value one = c.b.cast(condition, DType::i32).named("layer_" + name + "_one");
  Value sum = c.b.reduce(Op::reduce_add, one, per::tensor).named("layer_" + name + "_sum");
  Value low_bits = c.i64(0xFFFFFFFF);
  Value all = c.b.cast(sum, DType::i64) & low_bits;
  return all.named("layer_" + name);
}

// Returns what the next step will read as its weight: the new one, rounded or in its format.
Value stored_weight(Context& c, const Parameter& p) {
  const Settings& s = c.settings;
  if (p.carried) {
    return c.b.cast(c.b.cast(p.new_weight, s.model), DType::f32).named("layer_kept");
  }
  bool is_in_format = s.weight_format && s.options.master != Master::f32;
  if (!is_in_format) return p.new_weight;
  Value x = p.new_weight;
  if (x.type().at != per::element) x = c.b.select(eq(c.weight, c.weight), x, x);
  std::map<std::string, Value> values = {{"x", x}};
  if (c.random.seed != kNoValue) {
    values["seed"] = {&c.b, c.random.seed};
    values["count"] = {&c.b, c.random.count};
  }
  c.b.insert(s.weight_format->encode, values);
  c.b.insert(s.weight_format->decode, values);
  return values.at("x").named("layer_kept");
}

// Is true for elements whose weight did not change. With a compensation, neither did that.
Value unmoved(Value kept, const Context& c, const Parameter& p) {
  if (p.carried) return eq(p.carried, p.compensation.value).named("layer_unmoved");
  return eq(kept, c.weight).named("layer_unmoved");
}

}  // namespace

void report_layers(Context& c, Value gradient, const Parameter& p) {
  const RecipeOptions& o = c.settings.options;
  if (!o.layer_norms && !o.check_updates) return;
  c.stage("layers");
  if (o.layer_norms) write(c, "grad_norm", norm(c, gradient, "grad"));
  bool updates = static_cast<bool>(p.new_weight);  // `!` of a Value is an op
  if (!updates) return;
  Value kept = stored_weight(c, p);
  auto if_applied = [&](Value v, Value nothing) {
    return c.applied ? c.b.select(c.applied, v, nothing) : v;
  };
  if (o.layer_norms) {
    write(c, "weight_norm", norm(c, c.weight, "weight"));
    Value change = norm(c, (kept - c.weight).named("layer_change"), "update");
    write(c, "update_norm", if_applied(change, c.f32(0)));
  }
  if (!o.check_updates) return;
  Value has_gradient = (!eq(gradient, c.f32(0)).named("layer_g_zero")).named("layer_g_nonzero");
  Value lost = (has_gradient & unmoved(kept, c, p)).named("layer_lost");
  Value none = c.i64(0);
  write(c, "updates", if_applied(count(c, has_gradient, "updates"), none));
  write(c, "lost_updates", if_applied(count(c, lost, "lost_updates"), none));
}

}  // namespace stepfuse::recipes
