// Counts the words of a step's arguments. Knows ir.
#include "compiler/plan/arg_layout.hpp"

#include <stepfuse/program.hpp>

namespace stepfuse {

ArgLayout::ArgLayout(const std::vector<Arg>& args) {
  for (const Arg& a : args) {
    uint32_t& words = a.type.at == per::step    ? step_words
                      : a.type.at == per::group ? group_words
                                                : tensor_words;
    places.push_back({a.type.at, words++});
  }
}

}  // namespace stepfuse
