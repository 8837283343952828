// The tuning table: which choices pay on which GPU. It follows the instruction counts and the model of
// `stepfuse explain --sass` (tools/sass). No entry has been measured on a GPU. Knows nothing.
#pragma once

namespace stepfuse::cuda {

struct Tuning {
  // Use NVRTC's full optimisation: 6 to 26 % fewer instructions for 10 to 25 % more compile time.
  bool optimise_fully = false;
  // The largest number of blocks per multiprocessor that launch bounds may ask for.
  int most_blocks = 3;
};

// Bytes of registers that a thread may spill to fit a third block on a multiprocessor, if it encodes two
// values per turn. 24 words and their loads add 2 to 6 % to such a turn's instructions, and the third block
// hides half as much latency again (dyn4: tests/sass/budgets.txt).
inline constexpr int kSpilledWhereEncoded = 96;

// The GPUs listed have memory so fast that instructions and latency limit them. The RTX 5090 (120) is
// listed because its code would otherwise spill before enough loads are in flight.
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
