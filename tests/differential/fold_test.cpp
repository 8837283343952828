// The canonical fold, by the interpreter and by compiled CPU kernels: what ir/semantics/reduction.hpp defines.
// Knows all layers.
#include "runtime/cpu/fold.hpp"

#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "ir/semantics/interpreter.hpp"
#include "ir/semantics/reduction.hpp"
#include "runtime/cpu/cpu_executor.hpp"
#include "tests/support/fold_case.hpp"
#include "tests/support/kernel_runner.hpp"
#include "tests/support/rng.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("parts of all sizes are folded as defined: interpreter and CPU") {
  for (bool nan : {false, true}) {
    FoldCase c(nan);
    TestData interpreted(c.data());
    interpret(c.program(), interpreted.step());
    CHECK(c.difference(interpreted.step()) == "");
    CHECK(c.difference(c.data().step()) != "");  // nothing is made yet
    for (const char* level : {"host", "x86-64"}) {
      TestData actual(c.data());
      KernelRunner(c.program(), actual.step(), {.level = level}).run(actual.step(), CpuExecutor(1));
      CHECK(c.difference(actual.step()) == "");
    }
  }
}

TEST_CASE(
    "three levels of pieces: 2^28 values and some, which are one array of 2^18 mapped again and "
    "again") {
  constexpr uint64_t kPiece = kPieceElements, kPeriod = 16 * kPiece, kSquare = kPiece * kPiece;
  constexpr uint64_t kCount = kSquare + 3 * kPiece + 5, kBytes = kPeriod * sizeof(float);
  constexpr uint64_t kMaps = (kCount + kPeriod - 1) / kPeriod;
  int file = memfd_create("values", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  REQUIRE(ftruncate(file, kBytes) == 0);
  void* memory =
      mmap(nullptr, kMaps * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  for (uint64_t m = 0; m < kMaps; ++m) {
    void* at = static_cast<char*>(memory) + m * kBytes;
    REQUIRE(mmap(at, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == at);
  }
  close(file);
  auto* values = static_cast<float*>(memory);
  Rng rng(1);
  for (uint64_t i = 0; i < kPeriod; ++i) values[i] = static_cast<float>(2 * rng.unit() - 1);

  auto fold = [](const float* from, uint64_t count) {
    float sum = 0;
    fold_array(Op::reduce_add, DType::f32, from, count, &sum);
    return sum;
  };
  std::vector<float> pieces;  // the first level, then a piece of those and the rest
  for (uint64_t at = 0; at < kCount; at += kPiece) {
    pieces.push_back(fold(values + at % kPeriod, std::min(kPiece, kCount - at)));
  }
  const float second[] = {fold(pieces.data(), kPiece),
                          fold(pieces.data() + kPiece, pieces.size() - kPiece)};
  CHECK(fold(values, kCount) == fold(second, 2));
  munmap(memory, kMaps * kBytes);
}
