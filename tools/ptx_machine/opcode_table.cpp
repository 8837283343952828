// The rows, in the order of the ISA manual's chapters. What is not listed here is an error.
#include "tools/ptx_machine/opcode_table.hpp"

#include "tools/ptx_machine/semantics/compare.hpp"
#include "tools/ptx_machine/semantics/control.hpp"
#include "tools/ptx_machine/semantics/convert.hpp"
#include "tools/ptx_machine/semantics/integer.hpp"
#include "tools/ptx_machine/semantics/memory_ops.hpp"
#include "tools/ptx_machine/semantics/real.hpp"

#define INTEGERS "u16|u32|u64|s16|s32|s64"
#define SIGNED "s16|s32|s64"
#define BITS "b16|b32|b64"
#define REALS "f32|f64"
#define MEMORY_TYPES "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
#define LOAD_SPACES "global|shared|shared::cta|local|param|param::entry|const?"
#define STORE_SPACES "global|shared|shared::cta|local?"
#define ATOMIC_FORM "relaxed|acquire|release|acq_rel? cta|gpu|sys? global|shared|shared::cta?"
#define BOOL_OPS "and|or|xor?"

namespace ptx {
namespace {

using Shared32 = Types<u32>;
using Words = Types<u32, u64>;
using Signed = Types<s16, s32, s64>;
using Words32 = Types<u32, s32>;
using BitsAndPred = Types<bool, u16, u32, u64>;
using Narrow = Types<u16, u32, s16, s32>;
using Fields = Types<u32, u64, s32, s64>;
using Comparable = Types<u16, u32, u64, s16, s32, s64>;
template <class T>
using One = Types<T>;

constexpr OpcodeRow kRows[] = {
    // Integer arithmetic
    {"add", INTEGERS, "d a b", binary<AddInt, Integers>},
    {"sub", INTEGERS, "d a b", binary<SubInt, Integers>},
    {"mul", "lo " INTEGERS, "d a b", binary<MulLo, Integers>},
    {"mul", "hi " INTEGERS, "d a b", binary<MulHi, Integers>},
    {"mul", "wide u16|u32|s16|s32", "d:wide a b", binary<MulWide, Narrow>},
    {"mad", "lo " INTEGERS, "d a b c", ternary<MadLo, Integers>},
    {"mad", "hi " INTEGERS, "d a b c", ternary<MadHi, Integers>},
    {"mad", "wide u16|u32|s16|s32", "d:wide a b c:wide", wide_ternary<MadWide, Narrow>},
    {"sad", INTEGERS, "d a b c", ternary<Sad, Integers>},
    {"div", INTEGERS, "d a b", binary<DivInt, Integers>},
    {"rem", INTEGERS, "d a b", binary<RemInt, Integers>},
    {"abs", SIGNED, "d a", unary<AbsInt, Signed>},
    {"neg", SIGNED, "d a", unary<NegInt, Signed>},
    {"min", INTEGERS, "d a b", binary<MinInt, Integers>},
    {"max", INTEGERS, "d a b", binary<MaxInt, Integers>},
    {"popc", "b32|b64", "d:u32 a", unary<PopCount, Words>},
    {"clz", "b32|b64", "d:u32 a", unary<CountLeadingZeros, Words>},
    {"bfind", "u32|u64|s32|s64", "d:u32 a", unary<FindBit, Fields>},
    {"bfind", "shiftamt u32|u64|s32|s64", "d:u32 a", unary<FindBitShift, Fields>},
    {"brev", "b32|b64", "d a", unary<ReverseBits, Words>},
    {"bfe", "u32|u64|s32|s64", "d a b:u32 c:u32", field<ExtractField, Fields>},
    {"bfi", "b32|b64", "d a b c:u32 e:u32", insert_field},

    // Floating point: every rounding is to nearest even, nothing is flushed or approximated
    {"testp", "finite " REALS, "d:pred a", unary<TestProperty<Property::finite>, Reals>},
    {"testp", "infinite " REALS, "d:pred a", unary<TestProperty<Property::infinite>, Reals>},
    {"testp", "number " REALS, "d:pred a", unary<TestProperty<Property::number>, Reals>},
    {"testp", "notanumber " REALS, "d:pred a", unary<TestProperty<Property::notanumber>, Reals>},
    {"testp", "normal " REALS, "d:pred a", unary<TestProperty<Property::normal>, Reals>},
    {"testp", "subnormal " REALS, "d:pred a", unary<TestProperty<Property::subnormal>, Reals>},
    {"copysign", REALS, "d a b", binary<CopySign, Reals>},
    {"add", "rn? " REALS, "d a b", binary<AddReal, Reals>},
    {"sub", "rn? " REALS, "d a b", binary<SubReal, Reals>},
    {"mul", "rn? " REALS, "d a b", binary<MulReal, Reals>},
    {"fma", "rn " REALS, "d a b c", ternary<FusedMultiplyAdd, Reals>},
    {"mad", "rn " REALS, "d a b c", ternary<FusedMultiplyAdd, Reals>},
    {"div", "rn " REALS, "d a b", binary<DivReal, Reals>},
    {"abs", REALS, "d a", unary<AbsReal, Reals>},
    {"neg", REALS, "d a", unary<NegReal, Reals>},
    {"min", REALS, "d a b", binary<MinReal, Reals>},
    {"min", "NaN f32", "d a b", binary<MinRealNan, Reals>},
    {"max", REALS, "d a b", binary<MaxReal, Reals>},
    {"max", "NaN f32", "d a b", binary<MaxRealNan, Reals>},
    {"max", "NaN f16x2|bf16x2", "d a b", maximum_of_pairs},
    {"rcp", "rn " REALS, "d a", unary<Reciprocal, Reals>},
    {"sqrt", "rn " REALS, "d a", unary<SquareRoot, Reals>},

    // Comparison and selection
    {"setp", "eq|ne|lt|le|gt|ge " BOOL_OPS " " INTEGERS, "d|p:pred a b c:pred!?", setp<Comparable>},
    {"setp", "eq|ne " BOOL_OPS " " BITS, "d|p:pred a b c:pred!?", setp<Comparable>},
    {"setp", "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan " BOOL_OPS " " REALS,
     "d|p:pred a b c:pred!?", setp<Reals>},
    {"selp", BITS "|" INTEGERS "|" REALS, "d a b c:pred!", selp},

    // Logic and shifts
    {"and", "pred|" BITS, "d a b", binary<And, BitsAndPred>},
    {"or", "pred|" BITS, "d a b", binary<Or, BitsAndPred>},
    {"xor", "pred|" BITS, "d a b", binary<Xor, BitsAndPred>},
    {"not", "pred|" BITS, "d a", unary<Not, BitsAndPred>},
    {"lop3", "b32", "d a b c e", logic3},
    {"shl", BITS, "d a b:u32", shift<Shl, Bits>},
    {"shr", BITS "|" INTEGERS, "d a b:u32", shift<Shr, Integers>},
    {"shf", "l clamp b32", "d a b c", ternary<FunnelLeft, One<u32>>},
    {"shf", "l wrap b32", "d a b c", ternary<LeftWrap, One<u32>>},
    {"shf", "r clamp b32", "d a b c", ternary<FunnelRight, One<u32>>},
    {"shf", "r wrap b32", "d a b c", ternary<RightWrap, One<u32>>},
    {"prmt", "b32", "d a b c", ternary<Permute, One<u32>>},

    // Moves and conversions
    {"mov", "u32|u64", "d clock", read_clock},
    {"mov", "b32|b64", "d {a}", pack},
    {"mov", "b32|b64", "{d} a", unpack},
    {"mov", "pred|" BITS "|" INTEGERS "|" REALS, "d a", move},
    {"cvt", "u8|u16|u32|u64|s8|s16|s32|s64 u8|u16|u32|u64|s8|s16|s32|s64", "d:any a:any",
     convert_integer},
    {"cvt", "rn " REALS " u8|u16|u32|u64|s8|s16|s32|s64", "d:first a:any", convert_to_real},
    {"cvt", "rni|rzi|rmi|rpi u8|u16|u32|u64|s8|s16|s32|s64 " REALS, "d:any a", convert_to_integer},
    {"cvt", "rni|rzi|rmi|rpi " REALS " " REALS, "d:first a", round_to_integral},
    {"cvt", "rn? " REALS " " REALS, "d:first a", convert_real},
    {"cvt", "rn f16|bf16 f32", "d:first a", convert_to_half},
    {"cvt", "f32 f16|bf16", "d:first a", convert_from_half},
    {"cvt", "rn f16x2|bf16x2 f32", "d:first a b", convert_to_half_pair},

    // Memory
    {"cvta", "global|shared|local|param|const u64", "d a", convert_address},
    {"cvta", "to global|shared|local|param|const u64", "d a", convert_address_to},
    {"isspacep", "global|shared|local|const|param", "d:pred a:u64", is_space},
    {"ld",
     "weak? " LOAD_SPACES " ca|cg|cs|lu|cv? nc? "
     "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate? "
     "L2::64B|L2::128B|L2::256B? v2|v4|v8? " MEMORY_TYPES,
     "D:any [a]", load},
    {"ld", "global L2::cache_hint v2|v4|v8? " MEMORY_TYPES, "D:any [a] c:u64", load},
    {"ld", "volatile " LOAD_SPACES " v2|v4? " MEMORY_TYPES, "D:any [a]", load},
    {"ld", "relaxed|acquire cta|gpu|sys " LOAD_SPACES " v2|v4? " MEMORY_TYPES, "D:any [a]", load},
    {"st",
     "weak? " STORE_SPACES " wb|cg|cs|wt? "
     "L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate? "
     "v2|v4|v8? " MEMORY_TYPES,
     "[a] B:any", store},
    {"st", "global L2::cache_hint v2|v4|v8? " MEMORY_TYPES, "[a] B:any c:u64", store},
    {"st", "volatile " STORE_SPACES " v2|v4? " MEMORY_TYPES, "[a] B:any", store},
    {"st", "relaxed|release cta|gpu|sys " STORE_SPACES " v2|v4? " MEMORY_TYPES, "[a] B:any", store},
    {"prefetch", "global L1|L2", "[a]", prefetch},
    {"createpolicy", "fractional L2::evict_first b64", "d a:f32", move},  // any value is a policy

    // Control
    {"bra", "uni?", "L", branch},
    {"brx", "idx uni?", "a:u32 T", indexed_branch},
    {"ret", "uni?", "", leave},
    {"exit", "", "", leave},
    {"trap", "", "", trap},
    {"nanosleep", "u32", "a", no_operation},

    // Synchronisation
    {"bar", "cta? sync", "a:u32 b:u32?", barrier},
    {"barrier", "cta? sync aligned?", "a:u32 b:u32?", barrier_unaligned},
    {"bar", "cta? red popc u32", "d a:u32 c:pred!", barrier},
    {"bar", "cta? red and|or pred", "d a:u32 c!", barrier},
    {"barrier", "cta? red popc aligned? u32", "d a:u32 c:pred!", barrier_unaligned},
    {"barrier", "cta? red and|or aligned? pred", "d a:u32 c!", barrier_unaligned},
    {"bar", "warp sync", "e:u32", warp_barrier},
    {"membar", "cta|gl|sys", "", fence},
    {"fence", "sc|acq_rel? cta|gpu|sys", "", fence},
    {"atom", ATOMIC_FORM " add u32|s32|u64", "d [a] b", atomic},
    {"atom", ATOMIC_FORM " inc|dec u32", "d [a] b", atomic},
    {"atom", ATOMIC_FORM " min|max u32|s32|u64|s64", "d [a] b", atomic},
    {"atom", ATOMIC_FORM " and|or|xor|exch b32|b64", "d [a] b", atomic},
    {"atom", ATOMIC_FORM " cas b32|b64", "d [a] b c", atomic},
    {"red", ATOMIC_FORM " add u32|s32|u64", "[a] b", atomic},
    {"red", ATOMIC_FORM " inc|dec u32", "[a] b", atomic},
    {"red", ATOMIC_FORM " min|max u32|s32|u64|s64", "[a] b", atomic},
    {"red", ATOMIC_FORM " and|or|xor b32|b64", "[a] b", atomic},

    // Warps
    {"shfl", "sync up|down|bfly|idx b32", "d|p a b:u32 c:u32 e:u32", shuffle},
    {"vote", "sync all|any|uni pred", "d a! e:u32", vote},
    {"vote", "sync ballot b32", "d a:pred! e:u32", vote},
    {"match", "any sync b32|b64", "d:u32 a e:u32", match_any},
    {"redux", "sync add|min|max u32|s32", "d a e:u32", warp_reduction},
    {"redux", "sync and|or|xor b32", "d a e:u32", warp_reduction},
};

}  // namespace

std::span<const OpcodeRow> opcode_table() { return kRows; }

}  // namespace ptx
