// Arguments of a run: names, places and exact conversions. Knows the public API and fmt.
#include "runtime/args.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "runtime/numbers.hpp"

namespace stepfuse {
Args::Shape::Shape(const Program& program, int groups, bool checked)
    : step_name(program.name), layout(program.args), group_count(groups) {
  for (const Arg& a : program.args) {
    names.push_back(a.name);
    dtypes.push_back(a.type.dtype);
    bounds.push_back(checked && is_recipe(program.name) ? arg_bounds(a.name) : ArgBounds{});
    // Where the default has a meaning of its own it may also be given.
    if (a.fallback) bounds.back().also = to_double(*a.fallback, a.type.dtype);
  }
}

ArgId Args::Shape::find(std::string_view wanted) const {
  auto it = std::find(names.begin(), names.end(), wanted);
  if (it != names.end()) return {static_cast<int32_t>(it - names.begin())};
  std::string known;
  for (const std::string& n : names) known += " " + n;
  throw Error(ErrorKind::usage, fmt::format("step @{} has no argument '{}'; it has{}", step_name,
                                            wanted.substr(0, 80), names.empty() ? " none" : known));
}

// The value's bits, if it is one that the argument can have.
uint64_t Args::Shape::convert(ArgId arg, double value) const {
  auto i = static_cast<size_t>(arg.index);
  if (bounds[i].contain(value)) return to_bits(value, dtypes[i], names[i]).raw;
  throw Error(ErrorKind::usage,
              fmt::format("argument '{}' of step @{} cannot be {}: it is {} (with "
                          "StepOptions::check_args = false it may be anything)",
                          names[i], step_name, value, bounds[i].text()));
}

const Args::Shape& Args::shape() const {
  if (shape_ != nullptr) return *shape_;
  throw Error(ErrorKind::usage, "these Args were moved from: take new ones from make_args()");
}

Args::Args(std::shared_ptr<const Shape> shape)
    : shape_(std::move(shape)),
      words_(shape_->layout.words(static_cast<size_t>(shape_->group_count))) {}

uint64_t& Args::slot(ArgId arg, int group) {
  if (arg.index < 0 || static_cast<size_t>(arg.index) >= shape().names.size()) {
    throw Error(ErrorKind::usage, "an ArgId that did not come from this step's arg()");
  }
  if (group < 0 || group >= shape().group_count) {
    throw Error(ErrorKind::usage, fmt::format("group {} does not exist: the layout has {}", group,
                                              shape().group_count));
  }
  return words_[shape().layout.word(static_cast<size_t>(arg.index), static_cast<size_t>(group))];
}

void Args::set(ArgId arg, int group, double value) {
  uint64_t& raw = slot(arg, group);
  auto i = static_cast<size_t>(arg.index);
  if (!shape().layout.places[i].per_group && group != 0) {
    throw Error(ErrorKind::usage,
                fmt::format("argument '{}' is one for all groups", shape().names[i]));
  }
  raw = shape().convert(arg, value);
}

void Args::set(ArgId arg, double value) {
  slot(arg, 0);
  uint64_t raw = shape().convert(arg, value);
  for (int g = 0; g < shape().values(static_cast<size_t>(arg.index)); ++g) slot(arg, g) = raw;
}

void Args::set(std::string_view name, double value) { set(shape().find(name), value); }
void Args::set(std::string_view name, int group, double value) {
  set(shape().find(name), group, value);
}

double Args::get(ArgId arg, int group) const {
  uint64_t raw = const_cast<Args*>(this)->slot(arg, group);
  return to_double({raw}, shape().dtypes[static_cast<size_t>(arg.index)]);
}

}  // namespace stepfuse
