// Code tables as C functions. Knows the plan and C's text.
#pragma once

#include "compiler/plan/plan.hpp"
#include "compiler/text.hpp"

namespace stepfuse::c {

// A function of a code, which has the table's name, and one of a value, which has its bounds': a
// compiler would warn of arrays that nothing reads.
void emit_table(Text& out, const plan::Table& t);

}  // namespace stepfuse::c
