// The positions of a launch's arguments, for host and kernels alike. Knows ir's arguments.
//
// Every argument is a word of 8 bytes. The per-step arguments come first, in declared order. One row per
// group follows, with the per-group arguments in declared order, and then one row per tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <stepfuse/types.hpp>

namespace stepfuse {
struct Arg;

struct ArgLayout {
  struct Position {
    Granularity at = per::step;
    uint32_t word = 0;  // index among the per-step words, or within a row
    friend bool operator==(const Position&, const Position&) = default;
  };
  std::vector<Position> places;  // [argument]
  uint32_t step_words = 0;
  uint32_t group_words = 0;   // words of one row
  uint32_t tensor_words = 0;  // words of one row

  ArgLayout() = default;
  explicit ArgLayout(const std::vector<Arg>& args);
  // Returns the number of words of all arguments.
  size_t words(size_t group_count, size_t tensor_count) const {
    return step_words + group_words * group_count + tensor_words * tensor_count;
  }
  // Returns the word of one argument for a group or tensor, counted from the first per-step argument.
  size_t word(size_t arg, size_t member, size_t group_count) const {
    const Position& p = places[arg];
    if (p.at == per::step) return p.word;
    if (p.at == per::group) return step_words + group_words * member + p.word;
    return words(group_count, member) + p.word;
  }
  friend bool operator==(const ArgLayout&, const ArgLayout&) = default;
};

}  // namespace stepfuse
