// The data of a compiled kernel: host and device use the same structs, with pointers of one address space.
// Knows only std; without its # lines it is also part of every CUDA text.
//
// Everything here is data of a launch: no size, pointer or hyperparameter is ever compiled in.
#pragma once

#include <cstdint>

namespace stepfuse::abi {

// The shape of the canonical fold, as in ir/semantics/reduction.hpp, and of a device's blocks: a thread has
// 8 of a piece's lanes.
inline constexpr uint32_t kPieceElements = 16384;
inline constexpr uint32_t kLanes = 2048;
inline constexpr uint32_t kBlockThreads = 256;

// The unit of work: at most kPieceElements consecutive elements of one tensor, cut at multiples of
// kPieceElements. In steps with per-row values a chunk never crosses a row. Chunks are in the bound order
// of their tensors, and empty tensors have none. Chunk i writes slot i of every reduction. In steps with
// per-column values, the chunks of a strip that have the same columns are adjacent instead, and each names
// its slot.
struct Chunk {
  uint32_t tensor;
  uint32_t signature;  // index into the signatures of the plan
  uint32_t length;     // elements, 1 … kPieceElements
  uint32_t slot;       // the chunk's number in bound order, for tables in a different order
  uint64_t begin;      // first element, from the tensor's base pointers
};
static_assert(sizeof(Chunk) == 24);

enum TensorFlags : uint32_t {
  kPresent = 1,  // has a gradient in this step; other tensors' chunks write identities
};

struct Tensor {
  uint32_t group;
  uint32_t flags;
  uint64_t size;
  uint64_t offset;        // position of a shard's first element in the full tensor; otherwise 0
  uint64_t full_size;     // elements of the full tensor
  uint64_t columns;       // elements per row
  uint64_t scratch_base;  // position of its first element in every scratch array (unfused form)
  uint32_t id;            // distinguishes its random numbers from other tensors'
  uint32_t reserved;
};
static_assert(sizeof(Tensor) == 56);

// Which members of a finer granularity make up each member of a coarser one. Part m holds members
// [begin[m], begin[m + 1]) of the list `members`, in bound order; null stands for 0, 1, 2, …
struct Partition {
  const uint32_t* members;
  const uint32_t* begin;  // [part], and one more for the end
  uint32_t count;         // number of parts
  uint32_t reserved;
};
static_assert(sizeof(Partition) == 24);

// There is one per pair of granularities, numbered like kGranularities: (1, 0), (2, 0), (2, 1), (3, 0), …
// Chunks stand for elements. Steps without per-row or per-column values have no rows or columns, and
// neither of these is a part of the other.
inline constexpr uint32_t kPartitions = 15;
constexpr uint32_t partition_index(uint32_t from, uint32_t to) {
  return from * (from - 1) / 2 + to;
}

// The partitions of tensors into rows and columns: tensor t has members begin[t] to begin[t + 1].
inline constexpr uint32_t kRowsOfTensors = partition_index(3, 2);
inline constexpr uint32_t kColumnsOfTensors = partition_index(4, 2);

// Rows per strip. A reduction to columns has one slot per strip and column, strip by strip.
inline constexpr uint32_t kStripRows = 64;
// Columns that a warp of a device processes: a tile of eight per thread.
inline constexpr uint32_t kPartColumns = 256;

// The only parameter of a CPU kernel, passed by pointer.
struct Context {
  const Chunk* chunks;
  const Tensor* tensors;
  // [place * tensor_count + tensor]: where a tensor's values start in the arrays in which rows are combined. The plan
  // says which granularity has which place.
  const uint64_t* bases;
  void* const* pointers;       // [tensor * buffer count + buffer]
  const uint64_t* step_args;   // [index among the per-step args], raw bits, 8 bytes each
  const uint64_t* group_args;  // [group * count of group args + index among them], then
                               // [tensor * count of tensor args + index among them]
  void* const* states;   // [state] -> array of 1, group_count or tensor_count values of its dtype
  void* const* slots;    // [reduction] -> what is folded: a value per chunk, or per member of the
                         // operand's granularity (bool: 1 byte); to columns: per strip and column
  void* const* results;  // [reduction] -> its folded values, one per member of its granularity
  uint64_t* scalars;     // [value id] per-step values of the current stage, raw bits
  void* const* scratch;  // [scratch slot] -> array over the elements of all tensors
  uint32_t chunk_count;
  uint32_t tensor_count;
  uint32_t group_count;
  uint32_t reserved;
  Partition parts[kPartitions];  // [partition_index(from, to)]
};
static_assert(sizeof(Context) == 104 + 24 * kPartitions);

// A word that every block of a grid writes, alone on its cache line.
struct alignas(128) SyncWord {
  uint32_t value;
};

// Zero before the first launch. Every launch leaves it ready for the next one of any grid size.
struct Sync {
  SyncWord arrived;     // blocks at the barrier; the last one resets it to 0
  SyncWord generation;  // barriers passed
  SyncWord finished;    // blocks that will not read any more; reset like `arrived`
  SyncWord steps;       // steps finished: the index of the next report
};
static_assert(sizeof(Sync) == 512);

inline constexpr uint32_t kInlineArgs = 64;

enum DeviceFlags : uint32_t {
  kKeepSlots = 1,    // more chunks of this phase follow in a later launch: do not fold yet
  kKeepResults = 2,  // results were replaced since the fold: only roll up
};

// The only parameter of a device kernel, passed by value: a Context of device pointers, and additional
// data of a grid. `chunks` are those that a block processes. The small ones, which a warp processes,
// have at most kWarpElements elements. `chunk_count` is the number of slots of the step, however many
// chunks this launch has. step_args and group_args may both be null: then the arguments are in
// inline_args.
struct DeviceContext {
  Context step;
  const Chunk* small_chunks;
  // In steps with strips: the chunks cut into parts of at most kPartColumns columns, one part per
  // warp.
  const Chunk* parts;
  Sync* sync;
  // Host memory, or null: report_capacity records of 1 + the number of values that the plan reports. A
  // record starts with the index of its step, counted from 1, which is written last.
  uint64_t* reports;
  uint32_t report_capacity;
  uint32_t block_chunks;
  uint32_t small_count;
  uint32_t flags;
  uint32_t split;  // if allowed, a phase processes each block's chunk in 1 << split parts
  uint32_t part_count;
  uint64_t inline_args[kInlineArgs];  // per-step args, then the others as in Context
};
static_assert(sizeof(DeviceContext) == sizeof(Context) + 56 + 8 * kInlineArgs);

// Together with the up to 7 preceding elements of an aligned access, a small chunk has at most one element
// in each of a warp's 256 lanes.
inline constexpr uint32_t kWarpElements = 248;

}  // namespace stepfuse::abi
