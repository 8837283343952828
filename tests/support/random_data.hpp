// The data of a random step: tensors of awkward sizes at awkward places, states and arguments. Knows
// ir.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <stepfuse/program.hpp>

#include "compiler/signature.hpp"
#include "ir/semantics/step_data.hpp"

namespace stepfuse::testing {

enum class Inputs : uint8_t { normal, special };  // special: NaN, inf, subnormals, -0, huge values

// Arrays that stand between guard bytes, at a chosen distance from a 64-byte border.
class GuardedArray {
 public:
  GuardedArray() = default;
  GuardedArray(size_t bytes, size_t shift);
  GuardedArray(const GuardedArray& other) { *this = other; }
  GuardedArray& operator=(const GuardedArray& other);
  std::byte* data() const { return base_ + kGuard + shift_; }
  size_t bytes() const { return bytes_; }
  bool guards_intact() const;

 private:
  static constexpr size_t kGuard = 128;
  std::unique_ptr<std::byte[]> storage_;
  std::byte* base_ = nullptr;  // 64-byte aligned
  size_t bytes_ = 0;
  size_t shift_ = 0;
  size_t size() const { return bytes_ + shift_ + 2 * kGuard; }
  void allocate();
};

struct LayoutTensor {
  uint64_t size = 0;
  uint64_t offset = 0;     // of a shard in its full tensor; of steps that draw, a multiple of 4
  uint64_t full_size = 0;  // of that; 0: it ends with this one
  uint64_t columns = 0;    // elements of a row; 0: it is one
  uint32_t id = 0;         // of its random numbers
  int32_t group = 0;
  bool present = true;
  int32_t signature = 0;
  size_t shift = 0;  // elements that every array stands off a 64-byte border
};
struct TestLayout {
  std::vector<Signature> signatures;  // each in use or not
  std::vector<LayoutTensor> tensors;
  int32_t group_count = 1;
  // A tensor of these types.
  void add(LayoutTensor tensor, const Signature& types);
  // Leaves of each tensor's types those of the buffers that it has.
  void fit_sizes(const Program& program);
};

// Makes a tensor one that the orders of the program's buffers allow: whole rows, of whole blocks, in multiples that can
// be transposed.
void fit_orders(const Program& program, LayoutTensor* tensor, uint64_t seed);

TestLayout random_layout(const Program& program, uint64_t seed);

// A copy has arrays of its own with the same contents at the same distances from a border.
class TestData {
 public:
  TestData(const Program& program, TestLayout layout, uint64_t seed, Inputs inputs);
  TestData(const TestData& other)
      : layout_(other.layout_), step_(other.step_), arrays_(other.arrays_) {
    rebind();
  }
  TestData& operator=(const TestData&) = delete;

  StepData& step() { return step_; }
  const StepData& step() const { return step_; }
  const TestLayout& layout() const { return layout_; }
  const GuardedArray& array(size_t tensor, size_t buffer) const { return arrays_[tensor][buffer]; }

 private:
  void rebind();
  TestLayout layout_;
  StepData step_;
  std::vector<std::vector<GuardedArray>> arrays_;  // [tensor][buffer]
};

// The first place where two runs of `program` left different bits (any NaN equals any NaN), or
// where one wrote outside its arrays; nothing if they agree.
std::optional<std::string> difference(const Program& program, const TestData& expected,
                                      const TestData& actual);

}  // namespace stepfuse::testing
