// Builds the program that a pass returns, keeping an old-to-new map of values. Knows ir.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include <stepfuse/program.hpp>

namespace stepfuse {

// A pass walks the old program in order and says for every instruction what becomes of it; one that
// it says nothing about is dropped.
class Rewriter {
 public:
  // Takes over all declarations, no instruction.
  explicit Rewriter(const Program& from);

  // Where the old value lives in the new program.
  ValueId operator[](ValueId old) const { return map_[static_cast<size_t>(old)]; }
  // The old instruction with its operands in the new program.
  Inst remapped(ValueId old) const;

  // Appends `inst` (operands already new) in the place of `old`, under its name.
  ValueId emit(ValueId old, const Inst& inst);
  ValueId keep(ValueId old) { return emit(old, remapped(old)); }
  // Uses of `old` become uses of `value`, which is of the same type.
  void replace(ValueId old, ValueId value);
  // A constant that the old program did not have, named after `near`.
  ValueId constant(ValueId near, DType dtype, Bits literal);

  const Program& program() const { return to_; }
  Program& declarations() { return to_; }
  Program finish() { return std::move(to_); }

 private:
  void append(const Inst& inst, std::string name, SourceLoc loc);

  const Program& from_;
  Program to_;
  std::vector<ValueId> map_;
  std::unordered_set<std::string> fresh_names_;
};

}  // namespace stepfuse
