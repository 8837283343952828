// A step that only folds, in sizes at which the ways of folding change, and the result by
// ir/semantics/reduction.hpp. Knows ir.
#pragma once

#include <string>

#include "tests/support/random_data.hpp"

namespace stepfuse::testing {

// Groups of 0, 1, 2, 31, 33, 256, 257, 2047, 2048 and 2049 tensors, and tensors with as many
// elements. A group of one or two contains -0; with `nan`, the others end with a NaN.
class FoldCase {
 public:
  explicit FoldCase(bool nan);
  const Program& program() const { return program_; }
  const TestLayout& layout() const { return layout_; }
  const TestData& data() const { return data_; }
  // The first result that is not the canonical fold of `before`, or "".
  std::string difference(const StepData& after) const;

 private:
  Program program_;
  TestLayout layout_;
  TestData data_;
};

}  // namespace stepfuse::testing
