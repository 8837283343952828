// Names that meet each other, or a word of a language or of our own, in a kernel's text. Knows ir.
#pragma once

#include <stepfuse/program.hpp>

#include "tests/support/rng.hpp"

namespace stepfuse::testing {

// Renames buffers, states, arguments, stages and values; the program means what it did.
void rename_hostile(Program& program, Rng rng);

}  // namespace stepfuse::testing
