// The step that makes a step's buffers what its program says they begin as. Knows ir.
#pragma once

#include <optional>

#include <stepfuse/program.hpp>

namespace stepfuse {

// Zeroes `= 0` buffers and fills `= @other` ones with a converted copy. Has exactly the buffers it
// touches, under their names; nothing if the program initialises none.
std::optional<Program> make_init_program(const Program& program);

}  // namespace stepfuse
