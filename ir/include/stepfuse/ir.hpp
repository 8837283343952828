// The insides of programs, for tools that read, make or change steps: types, ops, declarations and instructions,
// their text, and formats. Trainers need only stepfuse.hpp. Knows ir only.
#pragma once

#include <stepfuse/format.hpp>
#include <stepfuse/ops.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/program.hpp>
#include <stepfuse/types.hpp>
