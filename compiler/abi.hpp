// The data that a compiled kernel works on, host and device alike: the same structs, pointers of
// one address space. Knows only std; without its # lines it is also part of every CUDA text.
//
// Everything here is data of a launch: no size, pointer or hyperparameter is ever compiled in.
#pragma once

#include <cstdint>

namespace stepfuse::abi {

// The shape of the canonical fold, as ir/semantics/reduction.hpp has it, and of a device's blocks: a thread has
// 8 of a piece's lanes.
inline constexpr uint32_t kPieceElements = 16384;
inline constexpr uint32_t kLanes = 2048;
inline constexpr uint32_t kBlockThreads = 256;

// One piece of a tensor, in a step with values of rows of a row (at most kPieceElements elements,
// cut at multiples of kPieceElements of the whole), and the unit of work. Chunks stand in bound
// order of their tensors; empty tensors have none. Chunk i writes slot i of every reduction; in a
// step with values of columns, where the chunks of a strip that have the same columns stand
// together, the slot that it says.
struct Chunk {
  uint32_t tensor;
  uint32_t signature;  // index into the signatures of the plan
  uint32_t length;     // elements, 1 … kPieceElements
  uint32_t slot;       // used where the table is sorted, as on devices: the chunk's bound number
  uint64_t begin;      // first element, from the tensor's base pointers
};
static_assert(sizeof(Chunk) == 24);

enum TensorFlags : uint32_t {
  kPresent = 1,  // has a gradient this step; chunks of other tensors only write identities
};

struct Tensor {
  uint32_t group;
  uint32_t flags;
  uint64_t size;
  uint64_t offset;        // position of its first element in the full tensor (shards), else 0
  uint64_t full_size;     // elements of the full tensor
  uint64_t columns;       // elements of each of its rows
  uint64_t scratch_base;  // position of its first element in every scratch array (unfused form)
  uint32_t id;            // tells its random numbers from those of other tensors
  uint32_t reserved;
};
static_assert(sizeof(Tensor) == 56);

// Which members of a finer domain make up each member of a coarser one. Part m holds members
// [begin[m], begin[m + 1]) of the list `members`, in bound order; null: of 0, 1, 2, …
struct Partition {
  const uint32_t* members;
  const uint32_t* begin;  // [part], and one more for the end
  uint32_t count;         // of parts
  uint32_t reserved;
};
static_assert(sizeof(Partition) == 24);

// One for every pair of granularities, numbered as kGranularities is: (1, 0), (2, 0), (2, 1), (3, 0), … Elements
// stand there as their chunks. Steps without values of rows have no rows, and of columns no
// columns; none of those belongs to one of the others.
inline constexpr uint32_t kPartitions = 15;
constexpr uint32_t partition_index(uint32_t from, uint32_t to) {
  return from * (from - 1) / 2 + to;
}

// A tensor's rows, and columns: members begin[t] to begin[t + 1] of this one.
inline constexpr uint32_t kRowsOfTensors = partition_index(3, 2);
inline constexpr uint32_t kColumnsOfTensors = partition_index(4, 2);

// A strip has this many rows. Slots of a reduction to columns: a value for each column, strip by strip.
inline constexpr uint32_t kStripRows = 64;
// What a warp of a device walks down, of so many columns: a tile of eight for each thread.
inline constexpr uint32_t kPartColumns = 256;

// The only parameter of a CPU kernel, by pointer.
struct Context {
  const Chunk* chunks;
  const Tensor* tensors;
  // [place * tensor_count + tensor]: where a tensor's values begin in the arrays that rows are combined in. The plan
  // says which granularity has which place.
  const uint64_t* bases;
  void* const* pointers;       // [tensor * buffer count + buffer]
  const uint64_t* step_args;   // [index among the step-domain args], raw bits, 8 bytes each
  const uint64_t* group_args;  // [group * count of group args + index among them], then
                               // [tensor * count of tensor args + index among them]
  void* const* states;   // [state] -> array of 1, group_count or tensor_count values of its dtype
  void* const* slots;    // [reduction] -> what is folded: a value per chunk, or per member of the
                         // operand's domain (bool: 1 byte); to columns: per strip and column
  void* const* results;  // [reduction] -> its folded values, one per member of its domain
  uint64_t* scalars;     // [value id] of step-domain values, raw bits, of the stage being run
  void* const* scratch;  // [scratch slot] -> array over all tensors' elements
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

// Zero before the first launch; every launch leaves it fit for the next one of any grid size.
struct Sync {
  SyncWord arrived;     // blocks at the barrier; wraps to 0 when the last one arrives
  SyncWord generation;  // barriers passed
  SyncWord finished;    // blocks that have nothing left to read; wraps like `arrived`
  SyncWord steps;       // steps finished: the place of the next report
};
static_assert(sizeof(Sync) == 512);

inline constexpr uint32_t kInlineArgs = 64;

enum DeviceFlags : uint32_t {
  kKeepSlots = 1,    // more chunks of this phase will follow in another launch: do not fold yet
  kKeepResults = 2,  // results were replaced since they were folded: only roll up
};

// The only parameter of a device kernel, by value: a Context of device pointers and what a grid
// needs besides. Its `chunks` are those that a block works on. Small ones, which a warp does, have
// at most kWarpElements elements. `chunk_count` counts the slots of
// the step, however many chunks this launch has. step_args and group_args may both be null: then the
// arguments stand in inline_args.
struct DeviceContext {
  Context step;
  const Chunk* small_chunks;
  // Of the chunks that are walked in the order of rows the parts of at most kPartColumns columns,
  // each for a warp.
  const Chunk* parts;
  Sync* sync;
  // Memory of the host, or null: report_capacity records of 1 + as many values as the plan reports.
  // A record begins with the number of its step, counted from 1, which is written last.
  uint64_t* reports;
  uint32_t report_capacity;
  uint32_t block_chunks;
  uint32_t small_count;
  uint32_t flags;
  uint32_t split;  // phases that may do so work on each chunk of a block in 1 << split parts
  uint32_t part_count;
  uint64_t inline_args[kInlineArgs];  // step args, then those of groups and tensors as in Context
};
static_assert(sizeof(DeviceContext) == sizeof(Context) + 56 + 8 * kInlineArgs);

// With the up to 7 elements before it that share an aligned access, a small chunk has at most one
// element in each of a warp's 256 lanes.
inline constexpr uint32_t kWarpElements = 248;

}  // namespace stepfuse::abi
