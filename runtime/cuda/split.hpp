// Decides into how many parts a launch cuts its chunks in a phase without reductions, so that no
// multiprocessor is idle while others have much work. Knows the kernel ABI.
#pragma once

#include <algorithm>
#include <cstdint>

#include "compiler/abi.hpp"

namespace stepfuse::cuda {

// Returns the logarithm of the number of parts. The model: a block's turn takes as long as the groups of
// four elements that each thread processes in sequence, plus about one such group for its start. A part has
// at least two groups per thread.
constexpr uint32_t best_split(uint32_t chunks, uint64_t elements, uint32_t blocks) {
  constexpr uint64_t kFour = uint64_t{4} * abi::kBlockThreads;
  uint64_t mean = elements / std::max(1U, chunks);
  uint32_t best = 0;
  uint64_t least = ~uint64_t{0};
  for (uint32_t split = 0; abi::kPieceElements >> split >= 2 * kFour; ++split) {
    uint64_t turns = ((uint64_t{chunks} << split) + blocks - 1) / std::max(1U, blocks);
    uint64_t part = std::min<uint64_t>(mean, abi::kPieceElements >> split);
    uint64_t time = turns * ((part + kFour - 1) / kFour + 1);
    if (time < least) {
      least = time;
      best = split;
    }
  }
  return best;
}

// Does the same for strips of rows, in a phase that combines nothing across rows: about four parts per
// block, with at least four rows each.
constexpr uint32_t rows_split(uint32_t strips, uint32_t blocks, uint32_t rows) {
  uint32_t split = 0;
  while (rows >> split > 4 && uint64_t{strips} << split < uint64_t{4} * blocks) ++split;
  return split;
}

}  // namespace stepfuse::cuda
