// The shared vocabulary of recipes. Knows ir and fmt.
#include "ir/recipes/context.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

namespace stepfuse::recipes {

void Context::declare(std::span<const ArgSpec> args) {
  for (const ArgSpec& a : args) args_.emplace(a.name, b.arg(a.name, a.type, a.value));
  for (const std::string& name : settings.options.per_tensor) {
    Value& v = args_.at(name);
    v = (v * arg(scale_of(name))).named(name + "_here");
  }
}

Value Context::arg(std::string_view name) const {
  auto it = args_.find(name);
  check_internal(it != args_.end(), "an undeclared argument of a recipe");
  return it->second;
}

Value Context::arg32(std::string_view name) {
  Value& v = narrowed_[std::string(name)];
  if (v) return v;
  return v = narrow(arg(name)).named(std::string(name) + "_f32");
}

Value Context::constant(DType dtype, double v) {
  Value& known = constants_[{dtype, v}];
  if (known) return known;
  std::string name = v < 0 ? fmt::format("minus_{}", -v) : fmt::format("c_{}", v);
  std::replace_if(
      name.begin(), name.end(), [](char ch) { return ch == '.' || ch == '-' || ch == '+'; }, '_');
  return known = b.constant(dtype, v).named(fmt::format("{}_{}", name, stepfuse::name(dtype)));
}

void Context::stage(std::string_view name) {
  if (stage_ == name) return;
  stage_ = name;
  b.stage(stage_);
}

StoredValue Context::moment(std::string_view name) {
  const StoredMoment* stored = settings.options.moments.find(name);
  return declare_and_load(
      name, stored != nullptr ? dtype_from_name(stored->form).value_or(DType::f32) : DType::f32);
}

StoredValue Context::declare_and_load(std::string_view name, DType dtype) {
  BufferRef buffer = b.buffer(std::string(name), dtype, Access::inout);
  b.init_zero(buffer);
  Value before = b.load(buffer).named(std::string(name) + "_in");
  if (dtype == DType::f32) return {buffer, before};
  return {buffer, b.cast(before, DType::f32).named(std::string(name) + "_f32")};
}

Value Context::applied_and(Value also) {
  return applied ? (applied & also).named("applied_here") : also;
}

void Context::update(const StoredValue& kept, Value v, Value also) {
  b.store(kept.buffer, b.cast_to_buffer(v, kept.buffer), also ? applied_and(also) : applied);
}

Value Context::if_counted(Value v) { return counted ? b.select(counted, v, f32(0)) : v; }

Value Context::count() {
  if (count_) return count_;
  StateRef step = b.state("step", {DType::i64, per::tensor});
  count_before_ = b.read(step).named("t0");
  count_ = (count_before_ + i64(1)).named("t");
  b.write(step, count_, applied);
  return count_;
}

Value Context::count_before() {
  count();
  return count_before_;
}

Value Context::seed() {
  if (seed_) return seed_;
  return seed_ = b.read(b.state("seed", {DType::i64, per::step})).named("seed");
}

Value Context::random_bits() {
  Value stream = i32(streams_++);
  Value step = count();
  return b.random(seed(), step, stream);
}

}  // namespace stepfuse::recipes
