// The walk over parameters and gradients: no hashing, no Python frames, and with the exchange API
// no Python objects but the gradients' own.
#include "python/core/walk.hpp"

#include <algorithm>

namespace stepfuse_python {
namespace {

// The tensors of a big model lie all over the memory, and in no cache when a step begins: most of
// the walk's time is waiting for them. What is at an address may be gone; asking for it does no
// harm.
void prefetch(const void* address) { __builtin_prefetch(address); }

// Calls `each` with every key and value of a dict of dicts, in order, until it says no; and `enter`
// before an inner dict.
template <class Each, class Enter>
bool every_item(PyObject* state, Each&& each, Enter&& enter) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(state, &at, &key, &value) != 0) {
    if (!each(key) || !each(value)) return false;
    if (PyDict_Check(value) == 0) continue;
    enter(value);
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
      params_name_(checked(PyUnicode_InternFromString("params"))),
      grad_name_(checked(PyUnicode_InternFromString("grad"))),
      data_ptr_name_(checked(PyUnicode_InternFromString("data_ptr"))),
      stride_name_(checked(PyUnicode_InternFromString("stride"))) {
  grad_ = Ref(PyObject_GetAttr(tensor_type, grad_name_.get()));
  if (grad_.get() == nullptr) {
    PyErr_Clear();
    return;
  }
  get_ = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(grad_.get()), Py_tp_descr_get));
}

Walk::Strides Walk::strides(PyObject* tuple) {
  Strides made{Ref::borrow(tuple), strides_.size()};
  for_each(tuple, [&](PyObject* stride) {
    strides_.push_back(PyLong_AsLongLong(stride));
    if (PyErr_Occurred() != nullptr) throw Raised();
  });
  made.count = strides_.size() - made.first;
  return made;
}

// A dimension of one element may have any stride, and a tensor of none any at all.
bool Walk::fit(const Strides& strides, const dlpack::Tensor& tensor) const {
  if (static_cast<size_t>(tensor.ndim) != strides.count) return false;
  if (tensor.strides == nullptr) return strides.count == 0;
  bool same = true;
  for (size_t i = 0; i < strides.count; ++i) {
    if (tensor.shape[i] == 0) return true;
    same = same && (tensor.shape[i] == 1 || tensor.strides[i] == strides_[strides.first + i]);
  }
  return same;
}

void Walk::add(PyObject* param, int part, size_t slot, void* address, PyObject* strides,
               PyObject* gradient_strides, PyObject* local, PyObject* like) {
  if (part >= 0) {
    auto index = static_cast<size_t>(part);
    if (parts_.size() <= index) parts_.resize(index + 1);
    if (parts_[index].size() <= slot) parts_[index].resize(slot + 1, nullptr);
  }
  if (entries_.size() % kTouched == 0) locals_.push_back(checked(PyList_New(0)));
  if (part >= 0) checked(PyList_Append(locals_.back().get(), local));
  PyTypeObject* type = Py_TYPE(param);
  Ref own(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), grad_name_.get()));
  if (own.get() == nullptr) PyErr_Clear();
  bool direct = get_ != nullptr && own.get() == grad_.get();
  entries_.push_back({Ref::borrow(param), direct ? type : nullptr, part, slot, address,
                      this->strides(strides), this->strides(gradient_strides), type_of(like)});
}

void Walk::watch(PyObject* state, PyObject* groups) {
  sizes_.clear();
  for_each(groups, [&](PyObject* group) {
    Ref list = checked(PyObject_GetItem(group, params_name_.get()));
    sizes_.push_back(PyList_Size(list.get()));
    if (sizes_.back() < 0) throw Raised();
  });
  state_.clear();
  state_dicts_.clear();
  every_item(
      state,
      [&](PyObject* object) {
        state_.push_back(Ref::borrow(object));
        return true;
      },
      [&](PyObject* dict) { state_dicts_.push_back(dict); });
}

bool Walk::same_state(PyObject* state) const {
  auto next = state_.begin();
  size_t ahead = kAhead;
  return every_item(
             state,
             [&](PyObject* object) { return next != state_.end() && (next++)->get() == object; },
             [&](PyObject*) {
               if (ahead < state_dicts_.size()) prefetch(state_dicts_[ahead++]);
             }) &&
         next == state_.end();
}

// What elements are; all alike without the exchange API, where torch has gradients of the
// parameters' type only.
dlpack::Type Walk::type_of(PyObject* tensor) const {
  dlpack::Tensor view{};
  if (exchange_ != nullptr && exchange_->tensor_from_object(tensor, &view) != 0) PyErr_Clear();
  return view.type;
}

// Where a plain tensor lies; false where it has no address, or other strides or another type.
bool Walk::locate(PyObject* tensor, const Strides& strides, const dlpack::Type* type,
                  void*& address, const void*& inside) const {
  if (exchange_ != nullptr) {
    dlpack::Tensor view{};
    if (exchange_->tensor_from_object(tensor, &view) != 0) {
      PyErr_Clear();  // sparse, meta: Python says it by the parameter's name
      return false;
    }
    address = static_cast<char*>(view.data) + view.byte_offset;
    inside = view.shape;  // a tensor has its sizes in itself
    return fit(strides, view) && (type == nullptr || *type == view.type);
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

// What `param.grad` is; without the search for the attribute in the type's bases where it is torch's.
Ref Walk::gradient_of(const Entry& entry) const {
  PyObject* param = entry.param.get();
  if (Py_TYPE(param) != entry.type) return checked(PyObject_GetAttr(param, grad_name_.get()));
  return checked(get_(grad_.get(), param, reinterpret_cast<PyObject*>(entry.type)));
}

Walk::Gradient Walk::read(const Entry& entry, void*& address) const {
  Ref grad = gradient_of(entry);
  if (grad.get() == Py_None) return Gradient::none;
  entry.gradient = grad.get();
  // A subclass may report address 0, or that of something else.
  if (reinterpret_cast<PyObject*>(Py_TYPE(grad.get())) != tensor_type_.get()) return Gradient::odd;
  return locate(grad.get(), entry.gradient_strides, &entry.gradient_type, address,
                entry.gradient_inside)
             ? Gradient::plain
             : Gradient::odd;
}

bool Walk::moved(const Entry& entry) const {
  void* address = nullptr;
  return !locate(entry.param.get(), entry.strides, nullptr, address, entry.inside) ||
         address != entry.address;
}

void Walk::fetch(size_t index) const {
  if (index >= entries_.size()) return;
  constexpr ptrdiff_t kLine = 64;
  const Entry& entry = entries_[index];
  prefetch(entry.param.get());
  prefetch(entry.gradient);
  for (const void* inside : {entry.inside, entry.gradient_inside}) {
    for (ptrdiff_t line = -1; line <= 1; ++line) {
      prefetch(reinterpret_cast<const void*>(reinterpret_cast<intptr_t>(inside) + line * kLine));
    }
  }
}

Walk::Found Walk::scan(PyObject* dicts, PyObject* state, PyObject* choices, PyObject* touch,
                       std::vector<size_t>& odd) {
  size_t index = 0;
  auto size = sizes_.begin();  // groups.same() says that there are as many groups
  if (!groups.same(dicts, choices)) return Found::changed;
  bool changed = false;
  for_each(dicts, [&](PyObject* group) {
    Ref list = checked(PyObject_GetItem(group, params_name_.get()));
    PyObject* params = list.get();
    Py_ssize_t count = PyList_Size(params);
    if (count < 0) throw Raised();
    changed = changed || count != *size++;
    for (Py_ssize_t i = 0; i < count && !changed; ++i, ++index) {
      if (index >= entries_.size() || entries_[index].param.get() != PyList_GetItem(params, i)) {
        changed = true;
        return;
      }
      fetch(index + kAhead);
      const Entry& entry = entries_[index];
      void* address = nullptr;
      Gradient gradient = read(entry, address);
      if (entry.part < 0) {
        changed = gradient != Gradient::none;
      } else {
        if (moved(entry)) changed = true;
        if (gradient == Gradient::odd) odd.push_back(index);
        parts_[static_cast<size_t>(entry.part)][entry.slot] = address;
      }
      if (touch != Py_None && (index % kTouched == kTouched - 1 || index + 1 == entries_.size())) {
        checked(PyObject_CallFunctionObjArgs(touch, locals_[index / kTouched].get(), nullptr));
      }
    }
  });
  changed = changed || index != entries_.size() || !same_state(state);
  if (changed) return Found::changed;
  groups.set(dicts);
  return Found::same;
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
