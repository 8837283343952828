// The arguments of a run: names, positions and exact conversions. Knows the public API and fmt.
#include "runtime/step/args.hpp"

#include <algorithm>

#include <fmt/format.h>

#include <stepfuse/program.hpp>

#include "ir/text/words.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/numbers.hpp"

namespace stepfuse {

ArgBounds bounds_of(const Program& program, const Arg& arg) {
  ArgBounds bounds = is_recipe(program.name) ? arg_bounds(arg.name) : ArgBounds{};
  // A default outside of the bounds has a meaning of its own, and the caller may give it too.
  if (arg.fallback) bounds.also = to_double(*arg.fallback, arg.type.dtype);
  return bounds;
}

uint64_t word_of(double value, const ArgBounds& bounds, DType dtype, std::string_view name,
                 std::string_view step_name) {
  if (bounds.contain(value)) return to_bits(value, dtype, name).raw;
  throw Error(ErrorKind::usage, fmt::format("argument '{}' of step @{} cannot be {}: it must be {}",
                                            name, step_name, value, bounds.text()));
}

Args::Shape::Shape(const Program& program, const Layout& tensors, bool checked)
    : step_name(program.name),
      layout(program.args),
      group_count(tensors.group_count()),
      tensor_count(static_cast<int>(tensors.size())) {
  for (const Arg& a : program.args) {
    names.push_back(a.name);
    dtypes.push_back(a.type.dtype);
    bounds.push_back(checked ? bounds_of(program, a) : ArgBounds{});
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

// Returns the bits of a value; throws if the argument cannot have it.
uint64_t Args::Shape::convert(ArgId arg, double value) const {
  auto i = static_cast<size_t>(arg.index);
  return word_of(value, bounds[i], dtypes[i], names[i], step_name);
}

const Args::Shape& Args::shape() const {
  if (shape_ != nullptr) return *shape_;
  throw Error(ErrorKind::usage, "these Args were moved from: get new ones from make_args()");
}

Args::Args(std::shared_ptr<const Shape> shape)
    : shape_(std::move(shape)),
      words_(shape_->layout.words(static_cast<size_t>(shape_->group_count),
                                  static_cast<size_t>(shape_->tensor_count))) {}

ArgId Args::checked(ArgId arg) const {
  if (arg.index >= 0 && static_cast<size_t>(arg.index) < shape().names.size()) return arg;
  throw Error(ErrorKind::usage, "an ArgId that did not come from this step's arg()");
}

uint64_t& Args::slot(ArgId arg, Member chosen) {
  checked(arg);
  auto i = static_cast<size_t>(arg.index);
  Granularity granularity = shape().layout.places[i].at;
  if (chosen.kind() == (granularity == per::tensor ? Member::Kind::group : Member::Kind::tensor)) {
    throw Error(ErrorKind::usage,
                fmt::format("argument '{}' has a value per {}: expected {}{{{}}}", shape().names[i],
                            granularity == per::tensor ? "tensor" : "group",
                            granularity == per::tensor ? "Tensor" : "Group", chosen.index()));
  }
  int64_t member = chosen.index();
  // A per-step argument has one value for all groups.
  int count = granularity == per::step ? shape().group_count : shape().values(i);
  if (member < 0 || member >= count) {
    std::string_view noun = granularity == per::tensor ? "tensor" : "group";
    throw Error(ErrorKind::usage, fmt::format("{} {} does not exist: the layout has {}", noun,
                                              member, index_words(count, noun)));
  }
  return words_[shape().layout.word(i, static_cast<size_t>(member),
                                    static_cast<size_t>(shape().group_count))];
}

void Args::set(ArgId arg, Member member, double value) {
  uint64_t& raw = slot(arg, member);
  auto i = static_cast<size_t>(arg.index);
  if (shape().layout.places[i].at == per::step && member.index() != 0) {
    throw Error(ErrorKind::usage,
                fmt::format("argument '{}' has one value for all groups: leave the group out",
                            shape().names[i]));
  }
  raw = shape().convert(arg, value);
}

void Args::set(ArgId arg, double value) {
  uint64_t raw = shape().convert(checked(arg), value);
  for (int m = 0; m < shape().values(static_cast<size_t>(arg.index)); ++m) {
    slot(arg, Internals::member(m)) = raw;
  }
}

void Args::set(std::string_view name, double value) { set(shape().find(name), value); }
void Args::set(std::string_view name, Member member, double value) {
  set(shape().find(name), member, value);
}

double Args::get(ArgId arg, Member member) const {
  uint64_t raw = const_cast<Args*>(this)->slot(arg, member);
  return to_double({raw}, shape().dtypes[static_cast<size_t>(arg.index)]);
}

}  // namespace stepfuse
