// The op table of the CUDA emitter: one C++ expression per op. Knows ir and the expansions of ops that CUDA
// does not have.
#pragma once

#include <string>

#include <stepfuse/ops.hpp>
#include <stepfuse/types.hpp>

#include "compiler/plan/expansions.hpp"
#include "compiler/text.hpp"

namespace stepfuse::cuda {

// Whether the prelude has conversions from and to the type.
bool has_instructions(DType t);
// Whether CUDA has the op itself, although there is an expansion.
bool is_native(Op op, DType in, DType out);

// Writes an elementwise op on operands given as expressions. `in` is the dtype of the deciding operand (for
// select, the second); both types are concrete. `within` is the expansion that contains it, if any.
std::string expression(Op op, DType in, DType out, const std::string& a, const std::string& b,
                       const std::string& c, const plan::Expansion* within = nullptr);

// Does the same, also for ops that use a table.
std::string expression(const KernelPlan& plan, const plan::Inst& inst);
// ---- tables.cpp

// Writes a look-up in the table, or the nearest code to the operand.
std::string table_expression(const plan::Table& table, Op op, const std::string& operand);
// Writes the table's arrays as constants.
void emit_table(Text& out, const plan::Table& table);
// At the start of a kernel, copies the arrays that its bodies read into shared memory. The copies hide the
// constants by having their names.
void emit_shared_tables(Text& out, const KernelPlan& plan, const plan::Kernel& kernel);

// Writes an expansion as a device function.
std::string function(const plan::Expansion& expansion);

// Returns the prelude's struct that combines two values of a reduction (not for reduce_any).
std::string_view combiner(Op reduction);

}  // namespace stepfuse::cuda
