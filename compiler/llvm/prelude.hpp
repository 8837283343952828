// Internal functions that emitted code may call. A module contains those that it uses. Knows the text
// vocabulary.
//
//   double @sf_powi_f64(double, i64), float @sf_powi_f32(float, i64)
//   double @sf_fma_f64(double, double, double)          for targets without FMA
//   void @sf_copy(ptr to, ptr from, i64 bytes)          fewer than 64 bytes
//   void @sf_zero_lanes(ptr lanes, i64 count)
//   float @sf_fold_lanes(ptr lanes, i64 count)
//     count lanes (a power of two) are not the identity
#pragma once

#include <string_view>

#include "compiler/llvm/text.hpp"

namespace stepfuse::llvm {

// Makes sure that the module defines `helper`.
void use_helper(Module& module, std::string_view helper);

}  // namespace stepfuse::llvm
