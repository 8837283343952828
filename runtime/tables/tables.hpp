// The tables that a kernel reads, made from the layout: chunks, tensors and pointers. Knows the public API
// and the kernel ABI.
#pragma once

#include <vector>

#include <stepfuse/stepfuse.hpp>

#include "compiler/abi.hpp"
#include "compiler/signature.hpp"
#include "runtime/tables/partitions.hpp"

namespace stepfuse {

struct StepTables {
  std::vector<abi::Chunk> chunks;
  std::vector<abi::Tensor> tensors;
  std::vector<void*> pointers;              // [tensor * buffer count + buffer]; null until bound
  std::vector<uint32_t> first_chunk = {0};  // [tensor], and one past the last
  std::vector<Signature> signatures;        // distinct, in order of appearance
  std::vector<uint32_t> signature_of;       // [tensor]
  Partitions parts;
  size_t buffer_count = 0;
  uint64_t scratch_elements = 0;  // length of every scratch array
  std::vector<Granularity>
      // Rows, if chunks are cut at rows, and columns, if there are per-column values.
      lines;
  int32_t rows_in_order = 0;       // KernelPlan::rows_in_order
  std::vector<Granularity> based;  // KernelPlan::based
  std::vector<uint64_t> bases;     // abi::Context::bases

  void describe(const Program& program);
  // Appends a tensor in bound order with its chunks.
  void add(abi::Tensor tensor, const Signature& types);
  // Call it when all tensors are added: makes `parts` and `bases`.
  void finish(uint32_t groups);
  void make_parts(uint32_t groups) { parts = Partitions(chunks, tensors, groups, lines); }
  void set_group(size_t tensor, uint32_t group);
  size_t group_count() const { return parts.of(per::tensor, per::group).count(); }
  void*& pointer(size_t tensor, size_t buffer) { return pointers[tensor * buffer_count + buffer]; }
  void* pointer(size_t tensor, size_t buffer) const {
    return pointers[tensor * buffer_count + buffer];
  }
  DType dtype(size_t tensor, size_t buffer) const {
    return signatures[signature_of[tensor]][buffer];
  }

 private:
  void put_rows_in_order(size_t first, uint64_t columns);
};

// Returns the storage types of tensor `index`, by buffer. Throws Error{bind} if they do not fit the
// program.
Signature signature_of(const Program& program, const TensorSpec& tensor, size_t index);
// Throws Error{bind}, as signature_of() does.
StepTables make_tables(const Program& program, const Layout& layout);

}  // namespace stepfuse
