// The tables of a step in device memory: their positions and first contents. Knows the kernel ABI, the
// plan and the host's tables.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "compiler/abi.hpp"
#include "compiler/plan/plan.hpp"
#include "runtime/tables/tables.hpp"
#include "runtime/tables/workspace.hpp"

namespace stepfuse::cuda {

// Positions are offsets in bytes from the start of the tables.
class DeviceTables {
 public:
  DeviceTables() = default;
  DeviceTables(const KernelPlan& plan, const StepTables& tables);

  size_t bytes() const { return bytes_; }
  // Elements in the chunks that blocks process.
  uint64_t block_elements() const { return block_elements_; }

  // Returns the number of blocks with work in a launch over tensors, rows and columns, which has one
  // thread per row or column and one warp per tensor.
  uint32_t member_units() const;

  // Returns the contents before the first run. Slots, results and scratch lie at `workspace`.
  std::vector<char> image(const StepTables& tables, const WorkspacePlan& plan, char* workspace,
                          const std::vector<void*>& states) const;

  // Returns the device pointers of a launch over all chunks.
  abi::DeviceContext context(char* base) const;
  // Limits a launch to chunks [begin, end) in bound order.
  void narrow(abi::DeviceContext* context, uint32_t begin, uint32_t end) const;

  // The part that run() may have to upload: the tensor records, followed by the pointers.
  size_t records_offset() const { return tensors_; }
  size_t records_bytes() const { return records_bytes_; }
  static void write_records(const StepTables& tables, char* out);

 private:
  std::vector<abi::Chunk> large_, small_;  // chunks for a block and for a warp, in bound order
  std::vector<abi::Chunk> columns_;        // abi::DeviceContext::parts, in bound order
  Partitions parts_;
  uint32_t slot_count_ = 0;
  uint64_t block_elements_ = 0;
  uint32_t tensor_count_ = 0;
  uint64_t arranged_tiles_ = 0;
  uint32_t group_count_ = 1;
  size_t sync_ = 0, chunks_ = 0, small_chunks_ = 0, columns_at_ = 0, tensors_ = 0, pointers_ = 0,
         bases_ = 0;
  struct PartitionAt {
    size_t members = 0, begin = 0;
  };
  std::array<PartitionAt, abi::kPartitions> parts_at_;
  size_t state_pointers_ = 0, slot_pointers_ = 0, result_pointers_ = 0, scratch_pointers_ = 0;
  size_t records_bytes_ = 0, bytes_ = 0;
};

}  // namespace stepfuse::cuda
