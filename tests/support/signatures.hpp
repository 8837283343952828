// Storage types of a step, for tests that have no layout. Knows ir.
#pragma once

#include <vector>

#include <stepfuse/program.hpp>

#include "compiler/signature.hpp"

namespace stepfuse::testing {

// `several` for every buffer that may have several types, which it is one of.
inline Signature signature_of(const Program& program, DType several = DType::f32) {
  Signature s;
  for (const Buffer& b : program.buffers) {
    s.push_back(b.dtypes.size() == 1 ? b.dtypes.only() : several);
  }
  return s;
}

// Each of tensors of every class that there is.
inline std::vector<Signature> signatures_of(const Program& program,
                                            const std::vector<DType>& several = {DType::f32}) {
  std::vector<Signature> all;
  for (DType t : several) {
    for (uint64_t elements : tensor_classes(program)) {
      all.push_back(of_size(program, elements, signature_of(program, t)));
    }
  }
  return all;
}

}  // namespace stepfuse::testing
