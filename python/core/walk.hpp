// One walk over an optimizer's parameters: the addresses of their gradients, and whether anything
// else changed. Knows CPython and DLPack, not torch.
#pragma once

#include <vector>

#include "python/core/dlpack.hpp"
#include "python/core/groups.hpp"
#include "python/core/python.hpp"

namespace stepfuse_python {

class Walk {
 public:
  static constexpr size_t kTouched = 128;
  static constexpr size_t kAhead = 6;  // entries that are fetched before they are looked at

  // `exchange` may be null: then a tensor is asked by its methods.
  Walk(const dlpack::ExchangeApi* exchange, PyObject* tensor_type);

  // A parameter in the order of the groups, its strides, and those that its gradient must have to be
  // read in place, with the type of `like`; part < 0: it has had no gradient so far.
  void add(PyObject* param, int part, size_t slot, void* address, PyObject* strides,
           PyObject* gradient_strides, PyObject* local, PyObject* like);
  // Remembers whose state is bound, and how many parameters each of the groups has.
  void watch(PyObject* state, PyObject* groups);

  enum class Found { same, changed };
  // Fills the parts' addresses and sets the steps' numbers; `odd` are the parameters whose gradient
  // only Python can judge. `groups` are dicts. `touch`, or None, is called with lists of the bound
  // parameters' local tensors, while they are in the cache.
  Found scan(PyObject* groups, PyObject* state, PyObject* choices, PyObject* touch,
             std::vector<size_t>& odd);
  void set(size_t index, void* gradient);
  const std::vector<void*>& gradients(size_t part) const { return parts_[part]; }
  // Whether the last scan found any gradient.
  bool any() const;

  Groups groups;

 private:
  struct Strides {
    Ref tuple;
    size_t first = 0;  // in strides_, as many as the tuple has
    size_t count = 0;
  };
  struct Entry {
    Ref param;
    PyTypeObject* type = nullptr;  // if its `grad` is the tensor type's own
    int part = -1;
    size_t slot = 0;
    void* address = nullptr;
    Strides strides;
    Strides gradient_strides;
    dlpack::Type gradient_type{};
    // Where libtorch's part of the parameter was at the last look, its gradient, and that one's part.
    mutable const void* inside = nullptr;
    mutable const void* gradient = nullptr;
    mutable const void* gradient_inside = nullptr;
  };
  enum class Gradient { none, plain, odd };
  Strides strides(PyObject* tuple);
  bool fit(const Strides& strides, const dlpack::Tensor& tensor) const;
  Ref gradient_of(const Entry& entry) const;
  Gradient read(const Entry& entry, void*& address) const;
  bool locate(PyObject* tensor, const Strides& strides, const dlpack::Type* type, void*& address,
              const void*& inside) const;
  dlpack::Type type_of(PyObject* tensor) const;
  bool same_state(PyObject* state) const;
  bool moved(const Entry& entry) const;
  void fetch(size_t index) const;

  const dlpack::ExchangeApi* exchange_;
  Ref tensor_type_;
  Ref params_name_;
  Ref grad_name_;
  Ref grad_;  // the tensor type's descriptor
  descrgetfunc get_ = nullptr;
  Ref data_ptr_name_;
  Ref stride_name_;
  std::vector<Entry> entries_;
  std::vector<int64_t> strides_;
  std::vector<Ref> locals_;  // lists of kTouched entries' each
  std::vector<std::vector<void*>> parts_;
  std::vector<Py_ssize_t> sizes_;  // of the groups
  std::vector<Ref> state_;
  std::vector<const void*> state_dicts_;
};

}  // namespace stepfuse_python
