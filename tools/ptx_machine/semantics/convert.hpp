// cvt: conversions between all types, with PTX's rules for rounding, saturation and NaN; and what
// is done to pairs of 16-bit floats.
#pragma once

#include "tools/ptx_machine/semantics/apply.hpp"

namespace ptx {

// Nearest even, subnormals kept, NaN to 0x7FFF; to 16 bits with `exponent_bits`.
u16 narrow_to_16(f32 value, u32 exponent_bits);
inline u16 to_f16(f32 value) { return narrow_to_16(value, 5); }
inline u16 to_bf16(f32 value) { return narrow_to_16(value, 8); }
f32 from_f16(u16 bits);
f32 from_bf16(u16 bits);

Run convert_integer(const Form& form, Instruction& i);       // cvt.u64.u32
Run convert_to_real(const Form& form, Instruction& i);       // cvt.rn.f32.s64
Run convert_to_integer(const Form& form, Instruction& i);    // cvt.rzi.s32.f64
Run round_to_integral(const Form& form, Instruction& i);     // cvt.rni.f32.f32
Run convert_real(const Form& form, Instruction& i);          // cvt.rn.f32.f64, cvt.f64.f32
Run convert_to_half(const Form& form, Instruction& i);       // cvt.rn.f16.f32
Run convert_from_half(const Form& form, Instruction& i);     // cvt.f32.bf16
Run convert_to_half_pair(const Form& form, Instruction& i);  // cvt.rn.bf16x2.f32 d, a, b
Run maximum_of_pairs(const Form& form, Instruction& i);      // max.NaN.bf16x2 d, a, b

}  // namespace ptx
