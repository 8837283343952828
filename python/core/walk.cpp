// The walk over parameters and gradients: no hashing, no Python frames, and with the exchange API no Python objects
// but the gradients' own.
#include "python/core/walk.hpp"

#include <algorithm>

namespace stepfuse_python {
namespace {

// Calls `each` with every key and value of a dict of dicts, in order, until it says no.
template <class Each>
bool every_item(PyObject* state, Each&& each) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(state, &at, &key, &value) != 0) {
    if (!each(key) || !each(value)) return false;
    if (PyDict_Check(value) == 0) continue;
    PyObject* inner_key = nullptr;
    PyObject* inner = nullptr;
    Py_ssize_t inner_at = 0;
    while (PyDict_Next(value, &inner_at, &inner_key, &inner) != 0) {
      if (!each(inner_key) || !each(inner)) return false;
    }
  }
  return true;
}

}  // namespace

Walk::Walk(const dlpack::ExchangeApi* exchange, PyObject* tensor_type)
    : exchange_(exchange),
      tensor_type_(Ref::borrow(tensor_type)),
      grad_name_(checked(PyUnicode_InternFromString("grad"))),
      data_ptr_name_(checked(PyUnicode_InternFromString("data_ptr"))),
      stride_name_(checked(PyUnicode_InternFromString("stride"))) {}

Walk::Strides::Strides(PyObject* strides) : tuple(Ref::borrow(strides)) {
  for_each(strides, [&](PyObject* stride) {
    values.push_back(PyLong_AsLongLong(stride));
    if (PyErr_Occurred() != nullptr) throw Raised();
  });
}

// A dimension of one element may have any stride, and a tensor of none any at all.
bool Walk::Strides::fit(const dlpack::Tensor& tensor) const {
  if (static_cast<size_t>(tensor.ndim) != values.size()) return false;
  if (tensor.strides == nullptr) return values.empty();
  bool same = true;
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.shape[i] == 0) return true;
    same = same && (tensor.shape[i] == 1 || tensor.strides[i] == values[i]);
  }
  return same;
}

void Walk::add(PyObject* param, int part, size_t slot, void* address, PyObject* strides,
               PyObject* gradient_strides) {
  if (part >= 0) {
    auto index = static_cast<size_t>(part);
    if (parts_.size() <= index) parts_.resize(index + 1);
    if (parts_[index].size() <= slot) parts_[index].resize(slot + 1, nullptr);
  }
  entries_.push_back(
      {Ref::borrow(param), part, slot, address, Strides(strides), Strides(gradient_strides)});
}

void Walk::watch(PyObject* state) {
  state_.clear();
  every_item(state, [&](PyObject* object) {
    state_.push_back(Ref::borrow(object));
    return true;
  });
}

bool Walk::same_state(PyObject* state) const {
  auto next = state_.begin();
  return every_item(
             state,
             [&](PyObject* object) { return next != state_.end() && (next++)->get() == object; }) &&
         next == state_.end();
}

// Where a plain tensor lies; false where it has no address or other strides.
bool Walk::locate(PyObject* tensor, const Strides& strides, void*& address) const {
  if (exchange_ != nullptr) {
    dlpack::Tensor view{};
    if (exchange_->tensor_from_object(tensor, &view) != 0) {
      PyErr_Clear();  // sparse, meta: Python says it by the parameter's name
      return false;
    }
    address = static_cast<char*>(view.data) + view.byte_offset;
    return strides.fit(view);
  }
  Ref found(PyObject_CallMethodObjArgs(tensor, stride_name_.get(), nullptr));
  Ref number(found.get() == nullptr
                 ? nullptr
                 : PyObject_CallMethodObjArgs(tensor, data_ptr_name_.get(), nullptr));
  if (number.get() == nullptr) {
    PyErr_Clear();
    return false;
  }
  address = to_address(number.get());
  int same = PyObject_RichCompareBool(found.get(), strides.tuple.get(), Py_EQ);
  checked(same);
  return same != 0;
}

Walk::Gradient Walk::read(const Entry& entry, void*& address) const {
  Ref grad = checked(PyObject_GetAttr(entry.param.get(), grad_name_.get()));
  if (grad.get() == Py_None) return Gradient::none;
  // A subclass may report address 0, or that of something else.
  if (reinterpret_cast<PyObject*>(Py_TYPE(grad.get())) != tensor_type_.get()) return Gradient::odd;
  return locate(grad.get(), entry.gradient_strides, address) ? Gradient::plain : Gradient::odd;
}

bool Walk::moved(const Entry& entry) const {
  void* address = nullptr;
  return !locate(entry.param.get(), entry.strides, address) || address != entry.address;
}

Walk::Found Walk::scan(PyObject* groups, PyObject* state, std::vector<size_t>& odd) {
  size_t index = 0;
  bool changed = false;
  for_each(groups, [&](PyObject* params) {
    Py_ssize_t count = PyList_Size(params);
    if (count < 0) throw Raised();
    for (Py_ssize_t i = 0; i < count && !changed; ++i, ++index) {
      if (index >= entries_.size() || entries_[index].param.get() != PyList_GetItem(params, i)) {
        changed = true;
        return;
      }
      const Entry& entry = entries_[index];
      void* address = nullptr;
      Gradient gradient = read(entry, address);
      if (entry.part < 0) {
        changed = gradient != Gradient::none;
        continue;
      }
      if (moved(entry)) changed = true;
      if (gradient == Gradient::odd) odd.push_back(index);
      parts_[static_cast<size_t>(entry.part)][entry.slot] = address;
    }
  });
  changed = changed || index != entries_.size() || !same_state(state);
  return changed ? Found::changed : Found::same;
}

bool Walk::any() const {
  for (const std::vector<void*>& part : parts_) {
    if (std::any_of(part.begin(), part.end(), [](void* g) { return g != nullptr; })) return true;
  }
  return false;
}

void Walk::set(size_t index, void* gradient) {
  const Entry& entry = entries_.at(index);
  parts_.at(static_cast<size_t>(entry.part))[entry.slot] = gradient;
}

}  // namespace stepfuse_python
