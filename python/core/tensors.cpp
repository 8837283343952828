// Reads tensors' addresses. It costs 14 ns by libtorch's functions, 48 ns by DLPack's exchange API,
// which counts a reference, and about 500 ns by methods.
#include "python/core/tensors.hpp"

#include <algorithm>

namespace stepfuse_python {
namespace {

Ref name(const char* text) { return checked(PyUnicode_InternFromString(text)); }

}  // namespace

bool View::has_elements() const {
  return std::find(sizes, sizes + dimensions, 0) == sizes + dimensions;
}

Tensors::Tensors(const dlpack::ExchangeApi* exchange, PyObject* tensor_type, PyObject* samples)
    : exchange_(exchange),
      type_(Ref::borrow(tensor_type)),
      data_ptr_name_(name("data_ptr")),
      size_name_(name("size")),
      stride_name_(name("stride")),
      dtype_name_(name("dtype")),
      device_name_(name("device")),
      is_neg_name_(name("is_neg")),
      version_(PyObject_GetAttrString(tensor_type, "_version")) {
  if (version_.get() == nullptr) throw Raised();
  get_version_ =
      reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(version_.get()), Py_tp_descr_get));
  if (get_version_ == nullptr) {
    PyErr_SetString(PyExc_TypeError, "the tensor type has no `_version`");
    throw Raised();
  }
  if (libtorch_.open()) inside_ = find_inside(samples);
}

// Finds the member of a Python object that points to its C++ tensor. torch calls that pointer
// `_cdata`. The offset is accepted if all samples have their pointer there and nowhere else.
size_t Tensors::find_inside(PyObject* samples) const {
  Ref bytes = checked(PyObject_GetAttrString(type_.get(), "__basicsize__"));
  size_t end = PyLong_AsSize_t(bytes.get());
  if (PyErr_Occurred() != nullptr) throw Raised();
  size_t count = 0;
  std::vector<size_t> hits(end / sizeof(void*), 0);
  for_each(samples, [&](PyObject* sample) {
    if (!is_plain(sample)) return;
    ++count;
    void* inside = to_address(checked(PyObject_GetAttrString(sample, "_cdata")).get());
    for (size_t i = sizeof(PyObject) / sizeof(void*); i < hits.size(); ++i) {
      if (reinterpret_cast<void**>(sample)[i] == inside) ++hits[i];
    }
  });
  auto found = std::find(hits.begin(), hits.end(), count);
  bool only = std::count(hits.begin(), hits.end(), 0U) + 1 == static_cast<ptrdiff_t>(hits.size());
  if (count < 2 || found == hits.end() || !only) return 0;
  return static_cast<size_t>(found - hits.begin()) * sizeof(void*);
}

bool Tensors::view_inside(PyObject* tensor, View& view) const {
  void* handle = reinterpret_cast<char*>(tensor) + inside_;
  int32_t layout = 0;
  int32_t type = 0;
  int64_t dimensions = 0;
  int64_t* sizes = nullptr;
  int64_t* strides = nullptr;
  // Asking a sparse tensor for its address would print an error.
  if (libtorch_.layout(handle, &layout) != 0 || layout != libtorch_.strided ||
      libtorch_.data_ptr(handle, &view.address) != 0 || libtorch_.dtype(handle, &type) != 0 ||
      libtorch_.dimensions(handle, &dimensions) != 0 || libtorch_.sizes(handle, &sizes) != 0 ||
      libtorch_.strides(handle, &strides) != 0) {
    return false;
  }
  view.type = static_cast<uint32_t>(type);
  view.dimensions = static_cast<size_t>(dimensions);
  view.sizes = sizes;
  view.strides = strides;
  return true;
}

bool Tensors::view(PyObject* tensor, View& view) {
  if (inside_ != 0) return view_inside(tensor, view);
  if (exchange_ == nullptr) {
    try {
      ask(tensor, view);
    } catch (const Raised&) {
      PyErr_Clear();
      return false;
    }
    return true;
  }
  dlpack::Tensor found{};
  if (exchange_->tensor_from_object(tensor, &found) != 0) {
    PyErr_Clear();
    return false;
  }
  view.address = static_cast<char*>(found.data) + found.byte_offset;
  view.type = static_cast<uint64_t>(found.type.code) << 32 |
              static_cast<uint64_t>(found.type.bits) << 16 | found.type.lanes;
  view.dimensions = static_cast<size_t>(found.ndim);
  view.sizes = found.shape;
  view.strides = found.strides;
  return true;
}

void Tensors::ask(PyObject* tensor, View& view) {
  Ref address = checked(PyObject_CallMethodObjArgs(tensor, data_ptr_name_.get(), nullptr));
  view.address = to_address(address.get());
  // torch has one object for each element type.
  view.type =
      reinterpret_cast<uintptr_t>(checked(PyObject_GetAttr(tensor, dtype_name_.get())).get());
  numbers(tensor, size_name_.get(), sizes_);
  numbers(tensor, stride_name_.get(), strides_);
  view.dimensions = sizes_.size();
  view.sizes = sizes_.data();
  view.strides = strides_.data();
}

void Tensors::numbers(PyObject* tensor, PyObject* method, std::vector<int64_t>& to) const {
  Ref found = checked(PyObject_CallMethodObjArgs(tensor, method, nullptr));
  to.clear();
  for_each(found.get(), [&](PyObject* number) {
    to.push_back(PyLong_AsLongLong(number));
    if (PyErr_Occurred() != nullptr) throw Raised();
  });
}

Ref Tensors::local(PyObject* tensor) const {
  if (is_plain(tensor)) return {};
  Ref found = local_.of(tensor);
  return found.get() != nullptr && is_tensor(found.get()) ? std::move(found) : Ref();
}

// FSDP2 gives a gradient its parameter's own object; gradients from autograd have objects of their
// own.
bool Tensors::are_placed_alike(PyObject* a, PyObject* b) const {
  Ref mine = spec_.of(a);
  Ref its = spec_.of(b);
  if (mine.get() == nullptr || its.get() == nullptr) return false;
  if (mine.get() == its.get()) return true;
  for (const Attribute* attribute : {&mesh_, &placements_}) {
    Ref first = attribute->of(mine.get());
    Ref second = attribute->of(its.get());
    if (first.get() == nullptr || second.get() == nullptr) return false;
    int same = PyObject_RichCompareBool(first.get(), second.get(), Py_EQ);
    if (same < 0) throw Raised();
    if (same == 0) return false;
  }
  return true;
}

int64_t Tensors::device(PyObject* tensor) const {
  if (inside_ != 0) {
    void* handle = reinterpret_cast<char*>(tensor) + inside_;
    int32_t type = 0;
    int32_t index = 0;
    if (libtorch_.device_type(handle, &type) != 0 || libtorch_.device_index(handle, &index) != 0) {
      return -1;
    }
    return static_cast<int64_t>(type) << 32 | static_cast<uint32_t>(index);
  }
  if (exchange_ != nullptr) {
    dlpack::Tensor found{};
    if (exchange_->tensor_from_object(tensor, &found) == 0) {
      return static_cast<int64_t>(found.device_type) << 32 | static_cast<uint32_t>(found.device_id);
    }
    PyErr_Clear();
    return -1;
  }
  Py_hash_t hash = PyObject_Hash(checked(PyObject_GetAttr(tensor, device_name_.get())).get());
  if (hash == -1) throw Raised();
  return hash;
}

int64_t Tensors::version(PyObject* tensor) const {
  if (inside_ != 0 && libtorch_.version != nullptr) {
    return libtorch_.version(reinterpret_cast<char*>(tensor) + inside_);
  }
  Ref number =
      checked(get_version_(version_.get(), tensor, reinterpret_cast<PyObject*>(Py_TYPE(tensor))));
  int64_t version = PyLong_AsLongLong(number.get());
  if (PyErr_Occurred() != nullptr) throw Raised();
  return version;
}

void Tensors::count_write(PyObject* tensor) const {
  libtorch_.bump_version(reinterpret_cast<char*>(tensor) + inside_);
}

bool Tensors::is_negated(PyObject* tensor) const {
  Ref answer = checked(PyObject_CallMethodObjArgs(tensor, is_neg_name_.get(), nullptr));
  return answer.get() == Py_True;
}

}  // namespace stepfuse_python
