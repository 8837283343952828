// Program to IR text. Knows ir only.
#pragma once

#include <string>

#include <stepfuse/program.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// parse(print(p)) == p for every program.
std::string print(const Program& program);

// The text with values renamed to %0, %1, …: equal for programs that differ in names only.
std::string print_canonical(const Program& program);

// One instruction, as it stands in print(): what emitters put into comments.
std::string print_inst(const Program& program, ValueId v);

// The name of a granularity: step, group, tensor, row, column, element, block of 256, or square of 128x128.
std::string granularity_name(Granularity at);

// A block or square as it stands in a type: 256, or 128x128.
std::string tile_text(Granularity tile);

std::string print_type(const Program& program, Type type);

}  // namespace stepfuse
#pragma GCC visibility pop
