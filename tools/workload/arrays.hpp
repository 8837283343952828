// The host arrays of one buffer, one per tensor, with guard bytes around them. Knows ir and the public
// API.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <stepfuse/types.hpp>

namespace stepfuse {

class ArraySet {
 public:
  struct Spec {
    uint64_t size = 0;  // elements
    DType dtype = DType::f32;
    uint32_t misalign = 0;  // elements above 64-byte alignment
  };
  explicit ArraySet(std::vector<Spec> specs);

  size_t size() const { return specs_.size(); }
  // Null for tensors without elements.
  std::span<void* const> pointers() const { return pointers_; }
  const Spec& spec(size_t tensor) const { return specs_[tensor]; }
  // The block that contains all arrays, in whole pages.
  std::span<char> memory() const { return {block_.get(), bytes_}; }
  // The first tensor with a write outside of its array, if there is one.
  std::optional<size_t> damaged() const;

 private:
  struct Free {
    void operator()(char* p) const;
  };
  std::vector<Spec> specs_;
  std::vector<void*> pointers_;
  std::vector<size_t> ends_;  // [tensor] end of its share of the block
  size_t bytes_ = 0;
  std::unique_ptr<char, Free> block_;
};

}  // namespace stepfuse
