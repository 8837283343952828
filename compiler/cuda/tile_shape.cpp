// Decides how many elements of a body a GPU thread processes at once. Knows the plan.
#include <algorithm>
#include <bit>

#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {

TileShape tile_shape_of(const Emission& e, const plan::Body& body, bool fast_path) {
  auto traffic = [](const plan::ArrayUse& a) {
    return size_of(a.dtype) * ((a.loaded ? 1 : 0) + (a.stored ? 1 : 0));
  };
  const bool has_blocks = body.unit > 1;
  TileShape shape;
  size_t widest = 0;
  size_t loaded = 0;
  for (const plan::ArrayUse& a : body.arrays) {
    if (block_of(e.plan.array(a).at) > 1) continue;
    widest = std::max(widest, size_of(a.dtype));
    if (a.loaded) loaded += size_of(a.dtype);
    if (has_blocks || is_aligned_alone(e, a)) continue;  // tiles start where blocks do
    if (shape.leader == nullptr || traffic(a) > traffic(*shape.leader)) shape.leader = &a;
  }
  shape.tile = widest <= 2 || e.options.access == 256 || has_blocks ? 8 : 4;
  auto unroll = static_cast<size_t>(e.options.unroll);
  size_t bytes = std::max<size_t>(1, loaded * static_cast<size_t>(shape.tile));
  size_t most = fast_path ? 32 : 16 * unroll;
  most /= static_cast<size_t>(shape.tile);
  shape.tiles = static_cast<int>(std::clamp<size_t>(std::bit_floor(64 * unroll / bytes), 1, most));
  // With two such tiles at once, one block would need all registers of a multiprocessor.
  if (body.encodes_two()) shape.tiles = std::min(shape.tiles, e.options.unroll);
  if (!body.reductions.empty()) shape.tiles = std::max(shape.tiles, kThreadLanes / shape.tile);
  return shape;
}

}  // namespace stepfuse::cuda
