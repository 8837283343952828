// Checks and keeps the caller's pointers. Knows the public API and the tables.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "runtime/device/device_memory.hpp"
#include "runtime/tables/tables.hpp"

namespace stepfuse {

// Every array of every tensor is checked before a step touches any: null, alignment to its element,
// whose memory it is, and overlap with another array that is written. find_moved is on the hot path:
// it compares each gradient once, re-checks only those that moved, and allocates nothing.
class Binding {
 public:
  Binding(const Program& program, const Layout& layout, StepTables& tables,
          std::string_view gradient, std::shared_ptr<DeviceMemory> memory);

  // Returns whether a pointer changed.
  bool bind(std::string_view buffer, std::span<void* const> pointers);
  // Whether bind() would change a pointer.
  bool differs(int buffer, std::span<void* const> pointers) const;
  // All arrays but the gradient's are bound and do not overlap; throws Error{bind} otherwise.
  void check_complete();
  // Something of the layout changed: the next check_complete() looks at everything again.
  void recheck() { complete_ = false; }

  // A tensor whose gradient is another one than last time; null = absent.
  struct Moved {
    uint32_t tensor = 0;
    void* pointer = nullptr;
  };
  // Checks the gradients of tensors [first, first + pointers.size()) and says which moved; changes
  // nothing. Of tensors with all arrays identical the first stands for all, and has the gradient that
  // any of them was given. Valid until the next call.
  std::span<const Moved> find_moved(size_t first, std::span<void* const> pointers);
  // What find_moved() found is so from now on.
  void accept_moved();

  // Whether the tensor is there in this step, by the last accepted gradients.
  bool is_present(size_t tensor) const {
    return (tables_.tensors[tensor].flags & abi::kPresent) != 0;
  }
  int gradient_buffer() const { return gradient_; }

 private:
  struct Range {
    uintptr_t begin = 0;
    uintptr_t end = 0;
    uint32_t tensor = 0;
    uint32_t buffer = 0;
  };
  std::string describe(const Range& r) const;
  Range range(size_t tensor, size_t buffer, void* pointer) const;
  bool is_absent(size_t tensor, size_t buffer) const {
    return tables_.dtype(tensor, buffer) == DType::absent;
  }
  bool is_written(size_t buffer) const { return program_.buffers[buffer].access != Access::in; }
  void check_pointer(const Range& r, void* pointer) const;
  void find_duplicates();
  void check_same(size_t first, size_t second) const;
  void set_present(size_t tensor);
  std::span<void* const> fold_duplicates(size_t first, std::span<void* const> pointers);
  void check_range(size_t first, size_t count) const;
  void check_overlaps();
  size_t check_moved_gradient(const Range& r, size_t near) const;
  void check_gradients_apart();
  [[noreturn]] void fail_overlap(const Range& a, const Range& b) const;

  const Program& program_;
  const Layout& layout_;
  StepTables& tables_;
  std::shared_ptr<DeviceMemory> memory_;
  int gradient_ = -1;
  bool complete_ = false;
  std::vector<bool> bound_;             // [buffer]
  std::vector<uint32_t> duplicate_of_;  // [tensor] the first tensor with identical arrays
  std::vector<uint32_t> duplicates_;    // those that have one
  std::vector<Range> written_;          // bound arrays that the step writes, by address
  std::vector<Range> read_;             // bound arrays that it only reads, by address
  // Of the hot path, reserved.
  std::vector<Range> scratch_;
  std::vector<void*> folded_;
  std::vector<Moved> moved_;
};

}  // namespace stepfuse
