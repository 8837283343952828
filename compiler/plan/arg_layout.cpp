// Counts the words of a step's arguments. Knows ir.
#include "compiler/plan/arg_layout.hpp"

#include <stepfuse/program.hpp>

namespace stepfuse {

ArgLayout::ArgLayout(const std::vector<Arg>& args) {
  for (const Arg& a : args) {
    bool per_group = a.type.domain == Domain::group;
    places.push_back({per_group, per_group ? group_words++ : step_words++});
  }
}

}  // namespace stepfuse
