// The data that a compiled kernel works on, host and device alike: the same structs, pointers of
// one address space. Knows only std.
//
// Everything here is data of a launch: no size, pointer or hyperparameter is ever compiled in.
#pragma once

#include <cstdint>

namespace stepfuse::abi {

// One piece of a tensor (at most kPieceElements elements, cut at multiples of kPieceElements), and
// the unit of work. Chunk i writes slot i of every reduction. Chunks stand in bound order of their
// tensors; empty tensors have none.
struct Chunk {
  uint32_t tensor;
  uint32_t signature;  // index into Schedule::signatures
  uint32_t length;     // elements, 1 … kPieceElements
  uint32_t reserved;
  uint64_t begin;  // first element, from the tensor's base pointers
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
  uint64_t scratch_base;  // position of its first element in every scratch array (unfused form)
};
static_assert(sizeof(Tensor) == 32);

// The kernel's only parameter.
struct Context {
  const Chunk* chunks;
  const Tensor* tensors;
  void* const* pointers;       // [tensor * buffer count + buffer]
  const uint64_t* step_args;   // [index among the step-domain args], raw bits, 8 bytes each
  const uint64_t* group_args;  // [group * count of group args + index among them]
  void* const* states;   // [state] -> array of 1, group_count or tensor_count values of its dtype
  void* const* slots;    // [reduction] -> array of chunk_count values (bool: 1 byte)
  void* const* results;  // [reduction] -> its folded value
  uint64_t* scalars;     // [value id] of step-domain values, raw bits, of the stage being run
  void* const* scratch;  // [scratch slot] -> array over all tensors' elements
  uint32_t chunk_count;
  uint32_t tensor_count;
  uint32_t group_count;
  uint32_t reserved;
};
static_assert(sizeof(Context) == 96);

}  // namespace stepfuse::abi
