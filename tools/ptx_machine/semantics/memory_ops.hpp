// ld, st, atom, red, cvta, fences.
#pragma once

#include "tools/ptx_machine/form.hpp"
#include "tools/ptx_machine/instruction.hpp"

namespace ptx {

Run load(const Form& form, Instruction& i);
Run store(const Form& form, Instruction& i);
Run atomic(const Form& form, Instruction& i);
Run convert_address(const Form& form, Instruction& i);     // cvta.shared.u64
Run convert_address_to(const Form& form, Instruction& i);  // cvta.to.shared.u64
Run is_space(const Form& form, Instruction& i);            // isspacep.shared
Run fence(const Form& form, Instruction& i);               // fence.acq_rel.gpu, membar.gl
Run prefetch(const Form& form, Instruction& i);
Run no_operation(const Form& form, Instruction& i);  // nanosleep

}  // namespace ptx
