// Buffers that a step only reads may be in read-only memory: kernels do not store there, not even
// the old value.
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;

TEST_CASE("gradients in read-only memory, with tails of all lengths") {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* grad = static_cast<float*>(memory);
  for (int i = 0; i < 100; ++i) grad[i] = static_cast<float>(i);
  REQUIRE(mprotect(memory, page, PROT_READ) == 0);
  for (int64_t size : {1, 3, 7, 9, 15, 17, 31, 33, 63, 65, 100}) {
    CAPTURE(size);
    std::vector<float> weight(static_cast<size_t>(size), 1.0F);
    Layout layout;
    layout.add({.elements = static_cast<uint64_t>(size)});
    Step step(make_recipe("sgd"), layout, Device::cpu());
    step.prepare();
    step.bind_raw("weight", std::vector<void*>{weight.data()});
    Args args = step.make_args();
    args.set("lr", 1);
    step.run(std::vector<void*>{grad}, args);
    (void)step.stats();
    for (int64_t i = 0; i < size; ++i) {
      CHECK(weight[static_cast<size_t>(i)] == static_cast<float>(1 - i));
    }
  }
  munmap(memory, page);
}
