// Builds the program that a pass returns, and maps old values to new ones. Knows ir.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include <stepfuse/program.hpp>

namespace stepfuse {

// A pass walks the old program in order and emits or replaces each instruction. An instruction that it
// skips is dropped.
class Rewriter {
 public:
  // Copies all declarations and no instruction.
  explicit Rewriter(const Program& from);

  // Returns the new value that stands for the old one.
  ValueId operator[](ValueId old) const { return map_[static_cast<size_t>(old)]; }
  // Returns the old instruction with its operands in the new program.
  Inst remapped(ValueId old) const;

  // Appends `inst` (whose operands are new values) in place of `old`, under its name.
  ValueId emit(ValueId old, const Inst& inst);
  ValueId keep(ValueId old) { return emit(old, remapped(old)); }
  // Makes uses of `old` uses of `value`, which has the same type.
  void replace(ValueId old, ValueId value);
  // Returns a constant that the old program did not have, named after `near`.
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
