// Which .version and .target a form of an opcode needs, as the ISA manual's notes say.
#pragma once

#include <string>

#include "tools/ptx_machine/form.hpp"
#include "tools/ptx_machine/syntax.hpp"

namespace ptx {

// What the module lacks for the form: "needs .target sm_80, the module has sm_75"; empty: nothing.
std::string lacking(const Program& program, std::string_view opcode, const Form& form);

// Of the module's own two lines: a target that the version does not know.
std::string lacking(const Program& program);

}  // namespace ptx
