// Selects the statements of a formula that apply under given options. Knows ir only.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "ir/formula/ast.hpp"
#include "ir/recipes/context.hpp"

namespace stepfuse::formula {

// Returns the statements outside of branches and in the branches taken, in the text's order. The result has
// no branch, option or refusal. A refusal in it throws Error{usage}.
std::vector<const Statement*> resolve(const Formula& formula, const recipes::Settings& settings);

// Returns every option that the formula declares.
std::vector<const Statement*> options_of(const Formula& formula);
// Returns the moments whose storage form the user may choose, in any branch.
std::vector<std::string> moments_of(const Formula& formula);
// Returns whether statements assign the weight, and whether they read its old value.
bool assigns_weight(const std::vector<const Statement*>& statements);
bool reads_weight(const std::vector<const Statement*>& statements, WeightDecay decay);
bool asks_for_profile(const Formula& formula, std::string_view profile);

// Returns the help text in the declaration of that name; "" if there is none.
std::string_view meaning_of(const Formula& formula, std::string_view name);

// Throws Error{parse} for a declaration that is never read: a misspelt name, or a leftover.
void check_used(const Formula& formula);
// Throws Error{parse} for a name that no branch declares. The branches taken were checked before.
void check_known(const Formula& formula);

// Returns the names that statements read, including those in their functions.
std::set<std::string, std::less<>> names_read(const std::vector<const Statement*>& statements);

}  // namespace stepfuse::formula
