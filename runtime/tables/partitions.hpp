// The lists for folds: which members of a finer granularity make up each member of a coarser one. Knows the
// kernel ABI and granularities.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <stepfuse/types.hpp>

#include "compiler/abi.hpp"

namespace stepfuse {

// The arrays that an abi::Partition points to.
struct Partition {
  std::vector<uint32_t> members;  // empty stands for 0, 1, 2, …
  std::vector<uint32_t> begin;
  uint32_t count() const { return static_cast<uint32_t>(begin.size()) - 1; }
  abi::Partition view() const;  // valid while this object lives
};

class Partitions {
 public:
  Partitions() = default;
  // `lines` names those of rows and columns that have members. Chunks are in bound order of their tensors,
  // and their slots are their indices.
  Partitions(std::span<const abi::Chunk> chunks, std::span<const abi::Tensor> tensors,
             uint32_t group_count, std::span<const Granularity> lines = {});

  const Partition& operator[](size_t i) const { return all_[i]; }
  const Partition& of(Granularity from, Granularity to) const;
  void describe(abi::Context* context) const;

 private:
  std::array<Partition, abi::kPartitions> all_;  // [partition_index(from, to)]
};

}  // namespace stepfuse
