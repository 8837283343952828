// DLPack 1.x: the structures by which libraries exchange tensors, declared after the published
// layout. Knows only C.
#pragma once

#include <cstdint>

namespace stepfuse_python::dlpack {

enum DeviceType : int32_t { kCpu = 1, kCuda = 2 };

struct Type {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
  friend bool operator==(const Type&, const Type&) = default;
};
constexpr Type kF32 = {2, 32, 1};
constexpr Type kBool = {6, 8, 1};

struct Tensor {
  void* data;
  int32_t device_type;
  int32_t device_id;
  int32_t ndim;
  Type type;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};

// The table in the capsule torch.Tensor.__dlpack_c_exchange_api__. Only the members used here have
// types.
struct ExchangeApi {
  uint32_t major;
  uint32_t minor;
  ExchangeApi* previous;
  void* allocate;
  void* managed_from_object;
  void* object_from_managed;
  int (*tensor_from_object)(void* object, Tensor* out);  // borrows, allocates nothing
  void* current_stream;
};

}  // namespace stepfuse_python::dlpack
