// The expression table of the CPU backend: each elementwise op as LLVM IR, on one value or on a vector of
// them. Knows ir and the text vocabulary.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/ops.hpp>

#include "compiler/llvm/cells.hpp"
#include "compiler/llvm/text.hpp"
#include "compiler/plan/expansions.hpp"

namespace stepfuse::llvm {

class Ops {
 public:
  Ops(Module& module, Function& function, int lanes) : m_(module), f_(function), lanes_(lanes) {}

  // Emits `op`. `in` is the dtype of the deciding operand (for select, the second), and `out` that of the
  // result. Types are resolved. Returns the name of the result (or an operand unchanged).
  std::string apply(Op op, DType in, DType out, std::span<const std::string> args,
                    std::string_view hint);
  std::string cast(const std::string& v, DType from, DType to, std::string_view hint) {
    return apply(Op::cast, from, to, {&v, 1}, hint);
  }

  // Emits an instruction of a plan, which may also use a table.
  std::string compute(const KernelPlan& plan, const plan::Inst& inst,
                      std::span<const std::string> args, std::string_view hint);

  std::string type(DType t) const { return type_text(t, lanes_); }
  std::string constant(DType t, Bits v) const { return constant_text(t, v, lanes_); }
  // Returns a vector with the scalar in every lane.
  std::string splat(DType t, const std::string& scalar, std::string_view hint);

  // Returns an i1: whether any of a vector's booleans is true.
  std::string any(const std::string& bools, std::string_view hint);

  std::string load(DType t, const std::string& address, std::string_view hint);
  void store(DType t, const std::string& value, const std::string& address);

 private:
  // Whether the target has the op itself, although there is an expansion.
  bool is_native(Op op, DType in, DType out) const;
  bool converts(DType in, DType out) const;
  std::string expand(const plan::Expansion& expansion, std::span<const std::string> args,
                     std::string_view hint);
  std::string machine(Op op, DType in, DType out, std::span<const std::string> args,
                      std::string_view hint);
  std::string convert(const std::string& v, DType from, DType to, std::string_view hint);
  std::string bitcast(const std::string& v, DType from, DType to, std::string_view hint);
  std::string itype(int bits) const { return integer_type_text(bits, lanes_); }
  std::string integer(int bits, uint64_t v) const { return integer_text(bits, v, lanes_); }
  std::string real(DType t, double v) const;
  std::string call(std::string_view intrinsic, DType t, std::span<const std::string> args,
                   std::string_view hint, std::string_view extra = "");
  std::string select(const std::string& condition, const std::string& type, const std::string& yes,
                     const std::string& no, std::string_view hint);

  std::string number(Op op, DType t, std::span<const std::string> args, std::string_view hint);
  std::string compare(Op op, DType t, std::span<const std::string> args, std::string_view hint);
  std::string divide_integers(DType t, const std::string& a, const std::string& b,
                              std::string_view hint);
  std::string fma(DType t, std::span<const std::string> args, std::string_view hint);
  std::string fma_by_f64(std::span<const std::string> args, std::string_view hint);
  std::string powi(DType t, std::span<const std::string> args, std::string_view hint);

  std::string lookup(const plan::Table& table, const std::string& code, std::string_view hint);
  std::string nearest(const plan::Table& table, const std::string& x, std::string_view hint);
  std::string in_cell(const plan::Table& table, const CodeCells& cells, const std::string& x,
                      std::string_view hint);
  std::string guessed(const plan::Table& table, const std::string& x, std::string_view hint);
  std::string searched(const plan::Table& table, const std::string& x, std::string_view hint);
  std::string bound_of(const plan::Table& table, const std::string& node,
                       std::span<const std::string> is_above, std::string_view hint);
  std::string each(DType t, const std::string& array, int64_t shift, const std::string& index,
                   std::string_view hint);
  std::string gather(const std::string& array, const std::vector<float>& values,
                     const std::string& index, std::string_view hint);
  std::string chosen(const std::string& array, const std::vector<float>& values,
                     const std::string& index, std::string_view hint);
  std::string bounded(std::string_view op, const std::string& v, float bound,
                      std::string_view hint);
  bool can_permute(size_t count) const;
  std::string permuted(std::span<const float> values, const std::string& index,
                       std::string_view hint);

  std::string half() const;
  std::string widen_f16(const std::string& v, std::string_view hint);
  std::string narrow_bf16(const std::string& v, std::string_view hint);
  std::string narrow_f16(const std::string& v, std::string_view hint);
  std::string widen_f8(const std::string& v, DType from, std::string_view hint);
  std::string narrow_f8(const std::string& v, DType to, std::string_view hint);
  std::string truncate(const std::string& v, std::string_view hint);
  std::string number_or(const std::string& v, float nan, std::string_view hint);

  Module& m_;
  Function& f_;
  int lanes_;
  const plan::Expansion* within_ = nullptr;  // the expansion that is being emitted
};

}  // namespace stepfuse::llvm
