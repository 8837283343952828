// Checks and keeps the caller's pointers. Knows the public API and the tables.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "runtime/device_memory.hpp"
#include "runtime/tables.hpp"

namespace stepfuse {

// Every array of every tensor is checked before a step touches any: null, alignment to its element,
// whose memory it is, and overlap with another array that is written. set_gradients is on the hot
// path: it allocates nothing and re-checks only gradients that moved.
class Binding {
 public:
  Binding(const Program& program, const Layout& layout, StepTables& tables,
          std::string_view gradient, std::shared_ptr<DeviceMemory> memory);

  // Returns whether a pointer changed.
  bool bind(std::string_view buffer, std::span<void* const> pointers);
  // Whether these arrays, of tensors [first, first + pointers.size()), are others than the last ones.
  bool differs(int buffer, size_t first, std::span<void* const> pointers) const;
  // All arrays but the gradient's are bound and do not overlap; throws Error{bind} otherwise.
  void check_complete();

  // The gradients of tensors [first, first + pointers.size()); null = absent. Returns whether a
  // pointer or a presence changed. On Error nothing was changed.
  bool set_gradients(size_t first, std::span<void* const> pointers);

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
  bool is_written(size_t buffer) const { return program_.buffers[buffer].access != Access::in; }
  void check_pointer(size_t tensor, size_t buffer, void* pointer) const;
  void find_duplicates();
  void check_overlaps();
  void check_moved_gradient(const Range& r) const;
  void check_gradients_apart(size_t first, std::span<void* const> pointers);
  [[noreturn]] void fail_overlap(const Range& a, const Range& b) const;

  const Program& program_;
  const Layout& layout_;
  StepTables& tables_;
  std::shared_ptr<DeviceMemory> memory_;
  int gradient_ = -1;
  bool complete_ = false;
  std::vector<bool> bound_;             // [buffer]
  std::vector<uint32_t> duplicate_of_;  // [tensor] the earlier tensor with identical arrays
  std::vector<Range> written_;          // bound arrays that the step writes, by address
  std::vector<Range> read_;             // bound arrays that it only reads, by address
  std::vector<Range> scratch_;          // for check_gradients_apart, reserved
};

}  // namespace stepfuse
