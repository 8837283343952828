// A step that only folds, with as many members in a part as decide between the ways of folding, and
// what ir/semantics/reduction.hpp says comes out. Knows ir.
#pragma once

#include <string>

#include "tests/support/random_data.hpp"

namespace stepfuse::testing {

// Groups of 0, 1, 2, 31, 33, 256, 257, 2047, 2048 and 2049 tensors, and tensors with as many
// elements. A group of one or two holds -0; with `nan`, the others end in a NaN.
class FoldCase {
 public:
  explicit FoldCase(bool nan);
  const Program& program() const { return program_; }
  const TestLayout& layout() const { return layout_; }
  const TestData& data() const { return data_; }
  // What is not the canonical fold of `before`; "" if all is.
  std::string difference(const StepData& after) const;

 private:
  Program program_;
  TestLayout layout_;
  TestData data_;
};

}  // namespace stepfuse::testing
