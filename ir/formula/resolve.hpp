// Which statements of a formula count under given options. Knows ir only.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/formula/ast.hpp"
#include "ir/recipes/context.hpp"

namespace stepfuse::formula {

// Those outside of branches and in the branches taken, in the text's order; no branch, option or
// refusal among them. A refusal met throws Error{usage}.
std::vector<const Statement*> resolve(const Formula& formula, const recipes::Settings& settings);

// Every option that it declares, and whether it asks for that profile.
std::vector<const Statement*> options_of(const Formula& formula);
// The moments whose form is the user's to choose, in any branch.
std::vector<std::string> moments_of(const Formula& formula);
// Whether statements give the weight a new value, and whether they ask for the old one.
bool assigns_weight(const std::vector<const Statement*>& statements);
bool reads_weight(const std::vector<const Statement*>& statements, WeightDecay decay);
bool asks_for_profile(const Formula& formula, std::string_view profile);

// What the text says beside the declaration of that name; "" where it says nothing.
std::string_view meaning_of(const Formula& formula, std::string_view name);

// Throws Error{parse} for what is declared and nowhere read: a name misspelt, or left over.
void check_used(const Formula& formula);
// The same for a name that no branch declares, where the branches taken are known to be right.
void check_known(const Formula& formula);

// The names that statements read, in their functions, too.
std::set<std::string, std::less<>> names_read(const std::vector<const Statement*>& statements);

}  // namespace stepfuse::formula
