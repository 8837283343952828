// Writes code tables as C functions. Knows the plan and C's text.
#pragma once

#include "compiler/plan/plan.hpp"
#include "compiler/text.hpp"

namespace stepfuse::c {

// Writes a function of a code, named like the table, and a function of a value, named like its bounds.
// Plain arrays would cause warnings if nothing reads them.
void emit_table(Text& out, const plan::Table& t);

}  // namespace stepfuse::c
