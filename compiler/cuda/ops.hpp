// The op table of the CUDA emitter: one C++ expression per op. Knows ir and the expansions of what
// CUDA does not have.
#pragma once

#include <string>

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#include "compiler/plan/expansions.hpp"
#include "compiler/text.hpp"

namespace stepfuse::cuda {

// Whether the prelude has conversions from and to the type.
bool has_instructions(DType t);
// Whether CUDA has the op itself, though there is an expansion.
bool is_native(Op op, DType in, DType out);

// An elementwise op on operands given as expressions; `in` is the dtype of the operand that decides
// (of select: the second), both types concrete. `within`: the expansion that it stands in.
std::string expression(Op op, DType in, DType out, const std::string& a, const std::string& b,
                       const std::string& c, const plan::Expansion* within = nullptr);

// The same, where it may be of a table.
std::string expression(const KernelPlan& plan, const plan::Inst& inst);
// ---- tables.cpp

// A lookup in the table, or the nearest code to the operand.
std::string table_expression(const plan::Table& table, Op op, const std::string& operand);
// The table's arrays, as constants.
void emit_table(Text& out, const plan::Table& table);
// At the beginning of a kernel: copies in shared memory of the arrays that its bodies look up in.
// Their names hide those of the constants.
void emit_shared_tables(Text& out, const KernelPlan& plan, const plan::Kernel& kernel);

// An expansion as a device function.
std::string function(const plan::Expansion& expansion);

// The prelude's struct that combines two values of a reduction (not for reduce_any).
std::string_view combiner(Op reduction);

}  // namespace stepfuse::cuda
