// Makes the step that initialises the buffers of a step as its program says. Knows ir and the layout.
#pragma once

#include <optional>

#include <stepfuse/program.hpp>
#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

// The result zeroes `= 0` buffers and fills `= @other` ones with a converted copy. It has exactly the
// buffers that it touches, under their names. Returns nothing if the program initialises no buffer.
std::optional<Program> make_init_program(const Program& program);

// Returns its layout: the tensors from `first` on, with the storage types that it needs.
Layout init_layout(const Program& init, const Layout& layout, size_t first);

}  // namespace stepfuse
