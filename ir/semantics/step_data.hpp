// The data of one step on the host: what the interpreter runs a program on. Knows ir only.
#pragma once

#include <cstdint>
#include <vector>

#include <stepfuse/types.hpp>

namespace stepfuse {

// One parameter tensor with its array in every buffer of the program.
struct StepTensor {
  uint64_t size = 0;
  uint64_t offset = 0;     // position of its first element in the full tensor (shards), else 0
  uint64_t full_size = 0;  // of the full tensor; 0: it ends where this one does
  uint64_t columns = 0;    // elements of a row; 0: it is one row
  uint32_t id = 0;         // tells its random numbers from those of other tensors
  int32_t group = 0;
  bool present = true;        // has a gradient this step
  std::vector<void*> data;    // [buffer], any alignment; may be null where size is 0
  std::vector<DType> dtypes;  // [buffer], one of the buffer's declared storage types

  uint64_t element_count() const { return full_size != 0 ? full_size : offset + size; }
  uint64_t column_count() const { return columns != 0 ? columns : element_count(); }
  // Of what is here; the last one of a shard may go on elsewhere.
  uint64_t row_count() const {
    return size == 0 ? 0 : (size + column_count() - 1) / column_count();
  }
  // How many values of columns it has.
  uint64_t own_columns() const { return size == 0 ? 0 : column_count(); }
};

struct StepData {
  std::vector<StepTensor> tensors;
  int32_t group_count = 1;
  std::vector<std::vector<Bits>> args;    // [arg]: 1, group_count or tensor count values
  std::vector<std::vector<Bits>> states;  // [state]: 1, group_count or tensor count values
};

}  // namespace stepfuse
