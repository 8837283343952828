// How a kernel accesses arrays, read off its PTX, and how it should, read off the schedule. Knows the
// schedule; nothing of the emitter.
#pragma once

#include <map>
#include <string>

#include "compiler/cuda/options.hpp"
#include "compiler/schedule/schedule.hpp"

namespace stepfuse::testing {

// How often each kind of access stands in a text: "ld.global.v4.b32" for whole tiles, "st.global.u16
// element" for the predicated ones of tiles that are not whole, "ld.v4 generic" for a vector access
// that names no state space.
using Accesses = std::map<std::string, int>;

Accesses accesses_of(const std::string& ptx);

// By the rule of CudaOptions: a tile is as many elements as make one access of the widest array, but at
// least four and at most eight; a thread works on as many tiles at once as are loaded with 64 bytes
// times `unroll`, at most 16 elements times `unroll`, and in a phase that reduces at least on eight.
Accesses expected_accesses(const Schedule& schedule, const CudaOptions& options);

// "" or a line for each kind whose number differs.
std::string difference(const Accesses& expected, const Accesses& found);

}  // namespace stepfuse::testing
