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

namespace {

// Maps one array of 2^18 values 1024 times and then another one, whose values are larger.
class ManyValues {
 public:
  static constexpr uint64_t kPiece = kPieceElements, kMaps = 1025;
  static constexpr uint64_t kOfMap = uint64_t{1} << 18, kBytes = kOfMap * sizeof(float);
  ManyValues() {
    int file = memfd_create("values", MFD_CLOEXEC);
    REQUIRE(file >= 0);
    REQUIRE(ftruncate(file, 2 * kBytes) == 0);
    memory_ = mmap(nullptr, kMaps * kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    for (uint64_t m = 0; m < kMaps; ++m) {
      void* at = static_cast<char*>(memory_) + m * kBytes;
      auto from = static_cast<off_t>(m + 1 < kMaps ? 0 : kBytes);
      REQUIRE(mmap(at, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, from) == at);
    }
    close(file);
    Rng rng(1);
    for (uint64_t i = 0; i < kOfMap; ++i) {
      data()[i] = static_cast<float>(2 * rng.unit() - 1);
      data()[(kMaps - 1) * kOfMap + i] = static_cast<float>(10 * rng.unit());
    }
  }
  ManyValues(const ManyValues&) = delete;
  ManyValues& operator=(const ManyValues&) = delete;
  ~ManyValues() { munmap(memory_, kMaps * kBytes); }
  float* data() const { return static_cast<float*>(memory_); }

 private:
  void* memory_ = nullptr;
};

float sum_of(const float* values, uint64_t count) {
  float sum = 0;
  fold_array(Op::reduce_add, DType::f32, values, count, &sum);
  return sum;
}

}  // namespace

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

TEST_CASE("more values than a piece of pieces has are folded in three levels") {
  constexpr uint64_t kPiece = ManyValues::kPiece, kMost = 7;
  ManyValues values;
  std::vector<float> pieces;
  for (uint64_t p = 0; p < kPiece + kMost; ++p) {
    pieces.push_back(sum_of(values.data() + p * kPiece, kPiece));
  }
  for (uint64_t more : {uint64_t{1}, uint64_t{4}, kMost}) {
    const float second[] = {sum_of(pieces.data(), kPiece), sum_of(pieces.data() + kPiece, more)};
    CHECK(sum_of(values.data(), (kPiece + more) * kPiece) == sum_of(second, 2));
  }
}
