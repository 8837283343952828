// The structs that C kernels declare for themselves are those of compiler/abi.hpp. Knows both.
#include <cstddef>

#include <doctest/doctest.h>

#include "compiler/abi.hpp"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpragmas"  // clang's and gcc's names differ
#pragma GCC diagnostic ignored "-Wold-style-cast"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "compiler/c/prelude.h"
#pragma GCC diagnostic pop

using namespace stepfuse;

// NOLINTBEGIN(bugprone-sizeof-expression): the size of a pointer is what is meant
TEST_CASE("C kernels and the runtime have one layout of the tables") {
#define SAME(C, CXX, FIELD)                          \
  CHECK(offsetof(C, FIELD) == offsetof(CXX, FIELD)); \
  CHECK(sizeof(C::FIELD) == sizeof(CXX::FIELD))
  CHECK(sizeof(sf_chunk) == sizeof(abi::Chunk));
  SAME(sf_chunk, abi::Chunk, tensor);
  SAME(sf_chunk, abi::Chunk, signature);
  SAME(sf_chunk, abi::Chunk, length);
  SAME(sf_chunk, abi::Chunk, slot);
  SAME(sf_chunk, abi::Chunk, begin);
  CHECK(static_cast<int>(SF_PRESENT) == static_cast<int>(abi::kPresent));
  CHECK(sizeof(sf_tensor) == sizeof(abi::Tensor));
  SAME(sf_tensor, abi::Tensor, group);
  SAME(sf_tensor, abi::Tensor, flags);
  SAME(sf_tensor, abi::Tensor, size);
  SAME(sf_tensor, abi::Tensor, offset);
  SAME(sf_tensor, abi::Tensor, full_size);
  SAME(sf_tensor, abi::Tensor, columns);
  SAME(sf_tensor, abi::Tensor, scratch_base);
  SAME(sf_tensor, abi::Tensor, id);
  CHECK(sizeof(sf_partition) == sizeof(abi::Partition));
  SAME(sf_partition, abi::Partition, members);
  SAME(sf_partition, abi::Partition, begin);
  SAME(sf_partition, abi::Partition, count);
  CHECK(sizeof(sf_context) == sizeof(abi::Context));
  SAME(sf_context, abi::Context, chunks);
  SAME(sf_context, abi::Context, tensors);
  SAME(sf_context, abi::Context, bases);
  SAME(sf_context, abi::Context, pointers);
  SAME(sf_context, abi::Context, step_args);
  SAME(sf_context, abi::Context, group_args);
  SAME(sf_context, abi::Context, states);
  SAME(sf_context, abi::Context, slots);
  SAME(sf_context, abi::Context, results);
  SAME(sf_context, abi::Context, scalars);
  SAME(sf_context, abi::Context, scratch);
  SAME(sf_context, abi::Context, chunk_count);
  SAME(sf_context, abi::Context, tensor_count);
  SAME(sf_context, abi::Context, group_count);
  SAME(sf_context, abi::Context, parts);
#undef SAME
}
// NOLINTEND(bugprone-sizeof-expression)
