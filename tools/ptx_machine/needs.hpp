// The .version and .target that a form of an opcode needs, from the notes of the ISA manual.
#pragma once

#include <string>

#include "tools/ptx_machine/form.hpp"
#include "tools/ptx_machine/syntax.hpp"

namespace ptx {

// The unmet need, as in "needs .target sm_80, the module has sm_75", or "".
std::string lacking(const Program& program, std::string_view opcode, const Form& form);

// The same for the module's own directives: a .target that its .version does not know.
std::string lacking(const Program& program);

}  // namespace ptx
