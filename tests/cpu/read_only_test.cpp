// Buffers that a step only reads may be in read-only memory: kernels do not store there, not even
// the old value.
#include <cstdint>
#include <cstring>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>

#include "ir/semantics/narrow.hpp"
#include "runtime/cpu/cpu_executor.hpp"
#include "tests/support/kernel_runner.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// A page of memory that gets a copy of the values and is then read-only.
class ReadOnly {
 public:
  template <class T>
  explicit ReadOnly(const std::vector<T>& values) {
    REQUIRE(values.size() * sizeof(T) <= size_);
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory_ != MAP_FAILED);
    std::memcpy(memory_, values.data(), values.size() * sizeof(T));
    REQUIRE(mprotect(memory_, size_, PROT_READ) == 0);
  }
  ReadOnly(const ReadOnly&) = delete;
  ReadOnly& operator=(const ReadOnly&) = delete;
  ~ReadOnly() { munmap(memory_, size_); }
  void* data() const { return memory_; }

 private:
  size_t size_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory_ = nullptr;
};

void check_gradients(DType type, const ReadOnly& grad, const std::string& level) {
  Program program = parse(fmt::format(R"(step @s {{
    buffer @grad : {0} in
    buffer @weight : f32 inout
    %narrow = load @grad : [{0}]
    %g = cast %narrow : [f32]
    %w = load @weight : [f32]
    %new = sub %w, %g : [f32]
    store @weight, %new
  }})",
                                      name(type)));
  StepData data;
  data.tensors = {{.dtypes = {type, DType::f32}}};
  KernelRunner runner(program, data, {.level = level, .optimize = true});
  for (size_t size : {1, 3, 7, 9, 15, 17, 31, 33, 63, 65, 100}) {
    CAPTURE(name(type));
    CAPTURE(level);
    CAPTURE(size);
    std::vector<float> weight(size, 1.0F);
    data.tensors[0].size = size;
    data.tensors[0].data = {grad.data(), weight.data()};
    runner.run(data, CpuExecutor(1));
    for (size_t i = 0; i < size; ++i) CHECK(weight[i] == 1 - static_cast<float>(i));
  }
}

}  // namespace

TEST_CASE("gradients in read-only memory, with tails of all lengths") {
  std::vector<float> wide;
  std::vector<uint16_t> narrowed;
  for (int i = 0; i < 100; ++i) {
    wide.push_back(static_cast<float>(i));
    narrowed.push_back(static_cast<uint16_t>(narrow(wide.back(), DType::bf16)));
  }
  for (const char* level : {"host", "x86-64"}) {
    check_gradients(DType::f32, ReadOnly(wide), level);
    check_gradients(DType::bf16, ReadOnly(narrowed), level);
  }
}
