// Moves, branches, barriers, and what a warp does together.
#pragma once

#include "tools/ptx_machine/form.hpp"
#include "tools/ptx_machine/instruction.hpp"

namespace ptx {

void run_watched(Thread& t, const Instruction& i);

Run move(const Form& form, Instruction& i);
Run pack(const Form& form, Instruction& i);    // mov.b64 d, {a, b}
Run unpack(const Form& form, Instruction& i);  // mov.b64 {d, e}, a
Run read_clock(const Form& form, Instruction& i);
Run logic3(const Form& form, Instruction& i);
Run insert_field(const Form& form, Instruction& i);

Run branch(const Form& form, Instruction& i);
Run indexed_branch(const Form& form, Instruction& i);
Run leave(const Form& form, Instruction& i);
Run trap(const Form& form, Instruction& i);

Run barrier(const Form& form, Instruction& i);
Run barrier_unaligned(const Form& form, Instruction& i);
Run warp_barrier(const Form& form, Instruction& i);
Run shuffle(const Form& form, Instruction& i);
Run vote(const Form& form, Instruction& i);
Run warp_reduction(const Form& form, Instruction& i);
Run match_any(const Form& form, Instruction& i);

}  // namespace ptx
