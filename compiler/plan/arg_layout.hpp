// Where the arguments of a launch stand, for host and kernels alike. Knows ir's arguments.
//
// Every argument is a word of 8 bytes. Those of the step domain come first, in declared order; then
// follows one row for each group, with the group arguments in declared order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepfuse {
struct Arg;

struct ArgLayout {
  struct Place {
    bool per_group = false;
    uint32_t word = 0;  // among those of the step, or within a group's row
    friend bool operator==(const Place&, const Place&) = default;
  };
  std::vector<Place> places;  // [argument]
  uint32_t step_words = 0;
  uint32_t group_words = 0;  // of one row

  ArgLayout() = default;
  explicit ArgLayout(const std::vector<Arg>& args);
  // Of all arguments.
  size_t words(size_t group_count) const { return step_words + group_words * group_count; }
  // Of one argument, counted from the first step argument.
  size_t word(size_t arg, size_t group) const {
    const Place& p = places[arg];
    return p.per_group ? step_words + group_words * group + p.word : p.word;
  }
  friend bool operator==(const ArgLayout&, const ArgLayout&) = default;
};

}  // namespace stepfuse
