// Reads a tensor's memory layout. Knows CPython, DLPack, and libtorch if it is loaded.
#pragma once

#include <vector>

#include "python/core/dlpack.hpp"
#include "python/core/libtorch.hpp"
#include "python/core/python.hpp"

namespace stepfuse_python {

// A tensor's memory layout. A type is a number that can only be compared.
struct View {
  void* address = nullptr;
  uint64_t type = 0;
  size_t dimensions = 0;
  const int64_t* sizes = nullptr;
  const int64_t* strides = nullptr;

  bool has_elements() const;
};

class Tensors {
 public:
  // Uses the first of three ways that works. libtorch's functions need `samples`, a sequence of
  // tensors that shows where a Python object points to its C++ tensor. DLPack's exchange API needs
  // `exchange`. The tensor's methods always work.
  Tensors(const dlpack::ExchangeApi* exchange, PyObject* tensor_type, PyObject* samples);

  // Returns false if a tensor has no address, like a sparse one. A view's sizes and strides are
  // valid until the tensor changes, and after a call of methods only until the next one.
  bool view(PyObject* tensor, View& view);
  // A DTensor has no memory of its own: returns its local tensor, or null if there is no such
  // tensor.
  Ref local(PyObject* tensor) const;
  // True if two DTensors have the same parts on the same ranks.
  bool are_placed_alike(PyObject* a, PyObject* b) const;

  // The address of torch's C++ part of a tensor, or null if unknown.
  const void* body(PyObject* tensor) const {
    return inside_ == 0 ? nullptr
                        : *reinterpret_cast<void**>(reinterpret_cast<char*>(tensor) + inside_);
  }

  const char* way() const {
    return inside_ != 0 ? "libtorch" : exchange_ != nullptr ? "DLPack" : "methods";
  }
  bool is_plain(PyObject* object) const {
    return reinterpret_cast<PyObject*>(Py_TYPE(object)) == type_.get();
  }
  bool is_tensor(PyObject* object) const {
    return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(type_.get())) != 0;
  }
  PyObject* type() const { return type_.get(); }

  // A number that can only be compared.
  int64_t device(PyObject* tensor) const;
  // Autograd's count of writes to a tensor.
  int64_t version(PyObject* tensor) const;
  // True if count_write() works; it counts a write as Python's
  // torch.autograd.graph.increment_version() does.
  bool counts_writes() const { return inside_ != 0 && libtorch_.bump_version != nullptr; }
  void count_write(PyObject* tensor) const;
  bool is_negated(PyObject* tensor) const;

 private:
  size_t find_inside(PyObject* samples) const;
  bool view_inside(PyObject* tensor, View& view) const;
  void ask(PyObject* tensor, View& view);
  void numbers(PyObject* tensor, PyObject* method, std::vector<int64_t>& to) const;

  const dlpack::ExchangeApi* exchange_;
  Ref type_;
  Libtorch libtorch_;
  size_t inside_ = 0;  // bytes from a Python object to its C++ tensor; 0 if unknown
  Attribute local_{"_local_tensor"};
  Attribute spec_{"_spec"};
  Attribute mesh_{"mesh"};
  Attribute placements_{"placements"};
  Ref data_ptr_name_;
  Ref size_name_;
  Ref stride_name_;
  Ref dtype_name_;
  Ref device_name_;
  Ref is_neg_name_;
  Ref version_;  // the type's descriptor
  descrgetfunc get_version_ = nullptr;
  std::vector<int64_t> sizes_;  // of the last tensor whose methods were called
  std::vector<int64_t> strides_;
};

}  // namespace stepfuse_python
