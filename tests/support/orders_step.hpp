// Steps whose buffers have other buffers' values in different orders, and tensors that allow it. Knows ir.
#pragma once

#include <cstdint>
#include <utility>

#include "tests/support/random_data.hpp"
#include "tests/support/signatures.hpp"

namespace stepfuse::testing {

// Elements of 1, 2 and 4 bytes, in one phase.
inline constexpr const char* kOrdersOfElements = R"(step @elements {
  buffer @w : f32 inout
  buffer @half : bf16 out
  buffer @code : f8e4m3 out
  buffer @exponent : <u8/32> out
  buffer @w_t : f32 out transposed of @w
  buffer @half_t : bf16 out transposed of @half
  buffer @code_t : f8e4m3 out transposed of @code
  buffer @exponent_s : <u8/32> out swizzled of @exponent
  %w = load @w : [f32]
  %new = mul %w, 1.5 : [f32]
  %half = cast %new : [bf16]
  %code = cast %new : [f8e4m3]
  %size = abs %new : [f32]
  %most = reduce_max %size : <f32/32>
  %bits = bitcast %most : <i32/32>
  %shifted = shr %bits, 23 : <i32/32>
  %exponent = cast %shifted : <u8/32>
  store @w, %new
  store @half, %half
  store @code, %code
  store @exponent, %exponent
}
)";

// Packed codes of 4 bits, scales of squares of 16 and 128, and a number of the step in a second phase.
inline constexpr const char* kOrdersOfSquares = R"(step @squares {
  buffer @w : f32 in
  buffer @codes : <i32/8> out
  buffer @scale : <f8e4m3/16> out
  buffer @large : <f32/128x128> out
  buffer @codes_t : <i32/8> out transposed of @codes
  buffer @scale_t : <f8e4m3/16> out transposed of @scale
  buffer @scale_s : <f8e4m3/16> out swizzled of @scale
  buffer @scale_ts : <f8e4m3/16> out transposed swizzled of @scale
  buffer @large_t : <f32/128x128> out transposed of @large
  report @norm : f32
  %w = load @w : [f32]
  %size = abs %w : [f32]
  %most = reduce_max %size : <f32/16x16>
  %largest = reduce_max %size : <f32/128x128>
  %scale = cast %most : <f8e4m3/16x16>
  %number = mul %w, 100 : [f32]
  %whole = cast %number : [i32]
  %code = and %whole, 15 : [i32]
  %index = element_index : [i32]
  %place = and %index, 7 : [i32]
  %shift = shl %place, 2 : [i32]
  %moved = shl %code, %shift : [i32]
  %packed = reduce_add %moved : <i32/8>
  %norm = reduce_add %size : f32
  store @codes, %packed
  store @scale, %scale
  store @large, %largest
  write @norm, %norm
}
)";

// Tiles at the ends that are cut, several tiles in both directions, one that is just full, and tensors without elements
// or without a gradient.
inline TestLayout orders_layout(const Program& program) {
  TestLayout layout{.signatures = {signature_of(program)}};
  const std::pair<uint64_t, uint64_t> kShapes[] = {{160, 288}, {16, 32},  {128, 128}, {0, 64},
                                                   {48, 96},   {32, 544}, {272, 32},  {16, 64}};
  for (auto [rows, columns] : kShapes) {
    layout.tensors.push_back(
        {.size = rows * columns, .columns = columns, .present = columns != 96});
  }
  return layout;
}

}  // namespace stepfuse::testing
