// Decides the defaults of options, and refuses contradictions. Knows ir only.
#pragma once

#include "ir/formula/ast.hpp"
#include "ir/recipes/context.hpp"

namespace stepfuse::recipes {

// Replaces flags in a message by members of RecipeOptions: ".clip = l2" for "--clip=l2". Option store has no member.
std::string with_member_names(std::string_view message);

// Throws Error{usage} for a value that an option's type does not have.
void check_values(const RecipeOptions& options);

// Throws Error{usage} that says what to do.
Settings settle(const formula::Formula& formula, const RecipeOptions& options);

}  // namespace stepfuse::recipes
