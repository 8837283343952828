// Fills buffers with other buffers' values in a different order, tile by tile. Knows the plan and the kernel ABI.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compiler/abi.hpp"
#include "compiler/plan/plan.hpp"

namespace stepfuse {

// The tiles of kArrangedTile that cover all tensors, numbered tensor by tensor.
class ArrangedTiles {
 public:
  struct Tile {
    uint32_t tensor;
    bool present;
    TensorShape shape;     // of the tensor
    uint64_t row, column;  // where the tile begins
  };

  // `place` is that of the tiles in Context::bases.
  ArrangedTiles(const abi::Context& context, size_t place) noexcept;
  uint32_t count() const noexcept { return count_; }
  Tile at(uint32_t number) const noexcept;

 private:
  const abi::Context& context_;
  const uint64_t* bases_;
  uint32_t count_ = 0;
};

// Writes what an arrangement makes of one tile's values.
void arrange_tile(const plan::Arrangement& arrangement, const ArrangedTiles::Tile& tile,
                  const void* from, void* to) noexcept;

}  // namespace stepfuse
