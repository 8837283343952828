// libtorch's C functions for tensors, looked up at run time if torch is loaded. Declared after
// their published header, torch/csrc/inductor/aoti_torch/c/shim.h. Knows nothing of Python.
#pragma once

#include <cstdint>

namespace stepfuse_python {

struct Libtorch {
  // A handle is the address of a C++ tensor. Each call returns 0 on success.
  template <class Number>
  using Get = int32_t (*)(void* handle, Number* result);

  Get<void*> data_ptr = nullptr;
  Get<int32_t> dtype = nullptr;
  Get<int32_t> layout = nullptr;
  Get<int32_t> device_type = nullptr;
  Get<int32_t> device_index = nullptr;
  Get<int64_t> dimensions = nullptr;
  Get<int64_t*> sizes = nullptr;
  Get<int64_t*> strides = nullptr;
  // at::TensorBase::_version() and torch::autograd::impl::bump_version(), which have no C
  // functions. They are null if torch has renamed them, and may throw torch's exceptions.
  int64_t (*version)(const void* handle) = nullptr;
  void (*bump_version)(const void* handle) = nullptr;
  int32_t strided = 0;  // the layout of tensors that have an address

  // Returns true if all C functions were found.
  bool open();
};

}  // namespace stepfuse_python
