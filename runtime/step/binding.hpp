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

// Checks every array of every tensor before a step touches any: null pointers, alignment to the element,
// the memory's device, and overlap with an array that is written. find_moved() is on the hot path: it
// compares each gradient once, checks again only those that moved, and allocates nothing.
class Binding {
 public:
  Binding(const Program& program, const Layout& layout, StepTables& tables,
          std::string_view gradient, std::shared_ptr<DeviceMemory> memory);

  // The array that a tensor has in a buffer. Throws Error{bind} if buffer or tensor does not exist.
  ArrayShape shape(std::string_view buffer, size_t tensor) const;
  // Pointers of arrays for bind(), after a check of element types and counts.
  std::vector<void*> checked(std::string_view buffer, std::span<const Array> arrays) const;
  // The same for run(). Each tensor may do without a gradient.
  std::vector<void*> check_gradients(std::span<const Array> arrays) const;
  // Returns whether a pointer changed.
  bool bind(std::string_view buffer, std::span<void* const> pointers);
  // Returns whether bind() would change a pointer.
  bool differs(int buffer, std::span<void* const> pointers) const;
  // Throws Error{bind} unless all arrays but the gradients are bound and do not overlap.
  void check_complete();
  // Makes the next check_complete() check everything again, after a change of the layout.
  void recheck() { complete_ = false; }

  // A tensor whose gradient differs from that of the last run; null if it has none.
  struct Moved {
    uint32_t tensor = 0;
    void* pointer = nullptr;
  };
  // Checks the gradients of tensors [first, first + pointers.size()) and returns those that moved, without
  // changing anything. If tensors have identical arrays, the first one stands for all and gets the gradient
  // that was given for any of them. The result is valid until the next call.
  std::span<const Moved> find_moved(size_t first, std::span<void* const> pointers);
  // Makes the result of the last find_moved() the current gradients.
  void accept_moved();

  // Whether the tensor takes part in this step, according to the last accepted gradients.
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
  int find(std::string_view buffer) const;
  ArrayShape shape_of(size_t buffer, size_t tensor) const;
  void check_array(size_t tensor, size_t buffer, const Array& array) const;
  std::string describe(const Range& r) const;
  Range range(size_t tensor, size_t buffer, void* pointer) const;
  bool is_absent(size_t tensor, size_t buffer) const {
    return tables_.dtype(tensor, buffer) == DType::absent;
  }
  bool is_written(size_t buffer) const { return program_.buffers[buffer].access != Access::in; }
  bool is_transposed(size_t buffer) const;
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
  bool gradients_checked_ = false;      // all of them, against the arrays that are bound now
  std::vector<bool> bound_;             // [buffer]
  std::vector<uint32_t> duplicate_of_;  // [tensor] the first tensor with identical arrays
  std::vector<uint32_t> duplicates_;    // tensors that have an entry in duplicate_of_
  std::vector<Range> written_;          // bound arrays that the step writes, by address
  std::vector<Range> read_;             // bound arrays that the step only reads, by address
  // Storage of the hot path, reserved in advance.
  std::vector<Range> scratch_;
  std::vector<void*> folded_;
  std::vector<Moved> moved_;
};

}  // namespace stepfuse
