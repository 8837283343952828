// The caller's allocator: every block is freed once with its original size, whatever fails in
// between, and unusable memory is refused. Knows the public API.
#include <cstdlib>
#include <map>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// Records the blocks that it gave out and accepts no others back.
class Ledger {
 public:
  size_t shift = 0;        // shifts every block from 256-byte alignment
  int fails_after = 1000;  // successful allocations from now on
  size_t given = 0;

  Allocator allocator() {
    return {[this](size_t bytes, Stream) -> void* {
              if (fails_after-- <= 0) throw std::runtime_error("none left");
              void* base = std::aligned_alloc(256, (bytes + shift + 255) / 256 * 256);
              void* block = static_cast<char*>(base) + shift;
              live_[block] = bytes;
              ++given;
              return block;
            },
            [this](void* block, size_t bytes, Stream) {
              auto it = live_.find(block);
              REQUIRE(it != live_.end());
              CHECK(it->second == bytes);
              std::free(static_cast<char*>(block) - shift);
              live_.erase(it);
            }};
  }
  size_t live() const { return live_.size(); }

 private:
  std::map<void*, size_t> live_;
};

std::vector<Device> devices() {
  std::vector<Device> all = {Device::interpreter()};
  if (llvm_status().available) {
    all.push_back(Device::cpu(1));
  } else {
    MESSAGE("CPU skipped: ", llvm_status().problem);
  }
  return all;
}

// Adam over tensors of four elements; two of them exist from the start.
struct Adam {
  std::vector<float> weight = std::vector<float>(12, 1), m = weight, v = weight, grad = weight;
  Step step;

  Adam(const Device& device, const Allocator& allocator)
      : step(make_recipe("adamw", {.clip = Clip::l2}), layout(), device, {.allocator = allocator}) {
    start(2);
  }
  static Layout layout() {
    Layout out;
    out.add({.name = "a", .elements = 4}).add({.name = "b", .elements = 4});
    return out;
  }
  static std::vector<float*> arrays(std::vector<float>& values, size_t tensors) {
    std::vector<float*> out;
    for (size_t t = 0; t < tensors; ++t) out.push_back(&values[4 * t]);
    return out;
  }
  void start(size_t tensors) {
    step.prepare();
    step.bind_raw("weight", arrays(weight, tensors));
    step.bind_raw("exp_avg", arrays(m, tensors));
    step.bind_raw("exp_avg_sq", arrays(v, tensors));
  }
};

}  // namespace

TEST_CASE("every block goes back to the caller's allocator, once and of its size") {
  for (const Device& device : devices()) {
    Ledger ledger;
    {
      Adam a(device, ledger.allocator());
      a.step.init_state();
      CHECK(ledger.live() == 1);  // the initialising step's block has been freed
      CHECK(ledger.given >= 2);
      a.step.run(Adam::arrays(a.grad, 2), a.step.make_args());
      a.step.append({.name = "c", .elements = 4});
      CHECK(ledger.live() == 1);
      Step moved = std::move(a.step);
      CHECK(ledger.live() == 1);
    }
    CHECK(ledger.live() == 0);
  }
}

TEST_CASE("memory that is not aligned to 256 bytes is refused and goes back") {
  for (const Device& device : devices()) {
    for (size_t shift : {1, 8, 64, 128}) {
      Ledger ledger;
      ledger.shift = shift;
      CHECK(has(message_of(ErrorKind::bind, [&] { Adam(device, ledger.allocator()); }),
                "not 256-byte aligned"));
      CHECK(ledger.given == 1);
      CHECK(ledger.live() == 0);
    }
    Allocator none{[](size_t, Stream) -> void* { return nullptr; }, [](void*, size_t, Stream) {}};
    CHECK(has(message_of(ErrorKind::device, [&] { Adam(device, none); }), "returned null"));
  }
}

TEST_CASE("an append() that finds no memory leaves the step with its arguments and its reports") {
  for (const Device& device : devices()) {
    Ledger ledger;
    Adam a(device, ledger.allocator());
    a.step.init_state();
    Args args = a.step.make_args();
    args.set("lr", 0.125);
    a.step.set_args(args);
    a.step.run_captured(Adam::arrays(a.grad, 2));
    std::optional<StepStats> before = a.step.latest();
    REQUIRE(before.has_value());
    float weight = a.weight[0];

    ledger.fails_after = 0;
    a.step.append({.name = "c", .elements = 4});
    a.step.append({.name = "d", .elements = 4});
    CHECK_THROWS_AS(a.step.prepare(), std::runtime_error);
    CHECK(a.step.layout().size() == 2);
    CHECK(ledger.live() == 1);
    CHECK(a.step.latest()->index == before->index);
    CHECK(a.step.latest()->values == before->values);
    CHECK(a.step.read_state("step").size() == 2);
    a.step.run_captured(Adam::arrays(a.grad, 2));  // with the arguments that were set
    CHECK(a.weight[0] < weight);
    a.step.run(Adam::arrays(a.grad, 2), args);  // older Args still fit
    CHECK(a.step.latest()->index == 2);

    ledger.fails_after = 1000;
    a.step.append({.name = "c", .elements = 4});
    CHECK(a.step.layout().size() == 3);
    CHECK(a.step.history().size() == 3);  // its reports are per step
    CHECK(has(message_of([&] { a.step.set_args(args); }), "older than append()"));
    a.start(3);
    a.step.init_tensors(Tensor{2});
    CHECK(has(message_of([&] { a.step.run_captured(Adam::arrays(a.grad, 3)); }), "set_args()"));
    a.step.run(Adam::arrays(a.grad, 3), a.step.make_args());
    CHECK(a.step.read_state("step")[0].i64() == 4);
    CHECK(a.step.read_state("step")[2].i64() == 1);
  }
}

TEST_CASE("a state is written as a whole") {
  for (const Device& device : devices()) {
    Adam a(device, {});
    for (size_t count : {0, 1, 3}) {
      std::vector<Bits> values(count, Bits::of(int64_t{7}));
      CHECK(has(message_of(ErrorKind::usage, [&] { a.step.write_state("step", values); }),
                "state 'step' has 2 values; got " + std::to_string(count)));
    }
    CHECK(a.step.read_state("step") == std::vector<Bits>(2, Bits::of(int64_t{0})));
    std::vector<Bits> two = {Bits::of(int64_t{5}), Bits::of(int64_t{6})};
    a.step.write_state("step", two);
    CHECK(a.step.read_state("step") == two);
  }
}
