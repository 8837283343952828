// The data of one step on the host, on which the interpreter runs a program. Knows ir only.
#pragma once

#include <cstdint>
#include <vector>

#include <stepfuse/types.hpp>

namespace stepfuse {

// One parameter tensor with its array in every buffer of the program.
struct StepTensor {
  uint64_t size = 0;
  uint64_t offset = 0;     // position of a shard's first element in the full tensor; otherwise 0
  uint64_t full_size = 0;  // elements of the full tensor; 0 if it ends where this one does
  uint64_t columns = 0;    // elements per row; 0 if it has one row
  uint32_t id = 0;         // distinguishes its random numbers from those of other tensors
  int32_t group = 0;
  bool present = true;        // it has a gradient in this step
  std::vector<void*> data;    // [buffer], any alignment; may be null where size is 0
  std::vector<DType> dtypes;  // [buffer], one of the buffer's declared storage types

  uint64_t element_count() const { return full_size != 0 ? full_size : offset + size; }
  uint64_t column_count() const { return columns != 0 ? columns : element_count(); }
  // Counts rows of this shard. Its last row may continue on a different rank.
  uint64_t row_count() const {
    return size == 0 ? 0 : (size + column_count() - 1) / column_count();
  }
  // Returns the number of its per-column values.
  uint64_t own_columns() const { return size == 0 ? 0 : column_count(); }
};

struct StepData {
  std::vector<StepTensor> tensors;
  int32_t group_count = 1;
  std::vector<std::vector<Bits>> args;    // [arg]: 1, group_count or tensor count values
  std::vector<std::vector<Bits>> states;  // [state]: 1, group_count or tensor count values
};

}  // namespace stepfuse
