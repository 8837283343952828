// Buffers that a step only reads may be in read-only memory: kernels do not store there, not even
// the old value.
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "ir/semantics/narrow.hpp"

using namespace stepfuse;

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

void check_gradients(DType type, const ReadOnly& grad) {
  for (int64_t size : {1, 3, 7, 9, 15, 17, 31, 33, 63, 65, 100}) {
    CAPTURE(name(type));
    CAPTURE(size);
    std::vector<float> weight(static_cast<size_t>(size), 1.0F);
    Layout layout;
    layout.add({.elements = static_cast<uint64_t>(size)});
    Step step(make_recipe("sgd", {.grad = type}), layout, Device::cpu());
    step.prepare();
    step.bind_raw("weight", std::vector<void*>{weight.data()});
    Args args = step.make_args();
    args.set("lr", 1);
    step.run(std::vector<void*>{grad.data()}, args);
    (void)step.stats();
    for (int64_t i = 0; i < size; ++i) {
      CHECK(weight[static_cast<size_t>(i)] == static_cast<float>(1 - i));
    }
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
  check_gradients(DType::f32, ReadOnly(wide));
  check_gradients(DType::bf16, ReadOnly(narrowed));
}
