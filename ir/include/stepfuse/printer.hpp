// Prints a Program as IR text. Knows ir only.
#pragma once

#include <string>

#include <stepfuse/program.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// parse(print(p)) == p for every program.
std::string print(const Program& program);

// Prints the text with values renamed to %0, %1, …. It is equal for programs that differ only in names
// of values.
std::string print_canonical(const Program& program);

// Prints one instruction as print() does. Emitters put this text into comments.
std::string print_inst(const Program& program, ValueId v);

// Returns the name of a granularity: step, group, tensor, row, column, element, block of 256, or square of
// 128x128.
std::string granularity_name(Granularity at);

// Returns a block or square as types write it: 256, or 128x128.
std::string tile_text(Granularity tile);
// The blocks and squares that a program may have: "16, 32, …".
std::string tile_texts();

// Returns the order of a buffer's values as its declaration writes it: "transposed of @weight". "" if it has its own.
std::string order_text(const Program& program, const Buffer& buffer);

std::string print_type(const Program& program, Type type);

}  // namespace stepfuse
#pragma GCC visibility pop
