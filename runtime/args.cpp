// Arguments of a run: names, places and exact conversions. Knows the public API and fmt.
#include "runtime/args.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/plan/arg_layout.hpp"
#include "runtime/numbers.hpp"

namespace stepfuse {
Args::Shape::Shape(const Program& program, int groups)
    : step_name(program.name), group_count(groups) {
  ArgLayout layout(program.args);
  step_count = layout.step_words;
  group_args = layout.group_words;
  for (size_t i = 0; i < program.args.size(); ++i) {
    const Arg& a = program.args[i];
    names.push_back(a.name);
    places.push_back({a.type.dtype, layout.places[i].per_group, layout.places[i].word});
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

Args::Args(std::shared_ptr<const Shape> shape)
    : shape_(std::move(shape)),
      step_values_(shape_->step_count),
      group_values_(shape_->group_args * static_cast<size_t>(shape_->group_count)) {}

uint64_t& Args::slot(ArgId arg, int group) {
  if (arg.index < 0 || static_cast<size_t>(arg.index) >= shape_->places.size()) {
    throw Error(ErrorKind::usage, "an ArgId that did not come from this step's arg()");
  }
  if (group < 0 || group >= shape_->group_count) {
    throw Error(ErrorKind::usage, fmt::format("group {} does not exist: the layout has {}", group,
                                              shape_->group_count));
  }
  const Shape::Place& p = shape_->places[static_cast<size_t>(arg.index)];
  if (!p.per_group) return step_values_[p.index];
  return group_values_[static_cast<size_t>(group) * shape_->group_args + p.index];
}

void Args::set(ArgId arg, int group, double value) {
  uint64_t& raw = slot(arg, group);
  auto i = static_cast<size_t>(arg.index);
  if (!shape_->places[i].per_group && group != 0) {
    throw Error(ErrorKind::usage,
                fmt::format("argument '{}' is one for all groups", shape_->names[i]));
  }
  raw = to_bits(value, shape_->places[i].dtype, shape_->names[i]).raw;
}

void Args::set(ArgId arg, double value) {
  slot(arg, 0);
  auto i = static_cast<size_t>(arg.index);
  uint64_t raw = to_bits(value, shape_->places[i].dtype, shape_->names[i]).raw;
  int groups = shape_->places[i].per_group ? shape_->group_count : 1;
  for (int g = 0; g < groups; ++g) slot(arg, g) = raw;
}

void Args::set(std::string_view name, double value) { set(shape_->find(name), value); }
void Args::set(std::string_view name, int group, double value) {
  set(shape_->find(name), group, value);
}

double Args::get(ArgId arg, int group) const {
  uint64_t raw = const_cast<Args*>(this)->slot(arg, group);
  return to_double({raw}, shape_->places[static_cast<size_t>(arg.index)].dtype);
}

}  // namespace stepfuse
