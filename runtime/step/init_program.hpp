// The step that makes a step's buffers what its program says they begin as. Knows ir and the layout.
#pragma once

#include <optional>

#include <stepfuse/program.hpp>
#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

// Zeroes `= 0` buffers and fills `= @other` ones with a converted copy. Has exactly the buffers it
// touches, under their names; nothing if the program initialises none.
std::optional<Program> make_init_program(const Program& program);

// Its layout: the tensors from `first` on, with the storage types that it needs.
Layout init_layout(const Program& init, const Layout& layout, size_t first);

}  // namespace stepfuse
