// What pays on which GPU: a table, by the instruction counts and the model of `stepfuse explain --sass`
// (tools/sass); nothing of it has been measured on a GPU. Knows nothing.
#pragma once

namespace stepfuse::cuda {

struct Tuning {
  // NVRTC's full optimisation: 6 to 26 % fewer instructions for 10 to 25 % more compile time.
  bool optimise_fully = false;
  // Blocks that launch bounds may ask a multiprocessor's registers for.
  int most_blocks = 3;
};

// Bytes of registers that a thread may spill for a third block on a multiprocessor where it encodes
// two values in a turn: 24 words and their loads make such a turn's instructions 2 to 6 % more, and
// the block hides half as much latency again (dyn4: tests/golden/expected/budgets.txt).
inline constexpr int kSpilledWhereEncoded = 96;

// Where memory is so fast that instructions and latency are in its way; and an RTX 5090, whose code
// would spill else before enough is under way.
constexpr Tuning tuning_of(int arch) {
  switch (arch) {
    case 80:
    case 90:
    case 100:
    case 103:
    case 120:
      return {.optimise_fully = true, .most_blocks = 4};
    default:
      return {};
  }
}

}  // namespace stepfuse::cuda
