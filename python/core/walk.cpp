// The walk over parameters and gradients. It needs no hashing and no Python frames; with the
// exchange API the gradients' own Python objects are the only ones.
#include "python/core/walk.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace stepfuse_python {
namespace {

// A large model's tensors are scattered in memory and in no cache when a step starts, so the walk
// mostly waits for memory. The memory at an address may have been freed; a prefetch of it does no
// harm.
void prefetch(const void* address) { __builtin_prefetch(address); }
constexpr ptrdiff_t kLine = 64;  // bytes of a cache line

// Calls `each` with every key and value of a dict of dicts in order, and with a flag for values of
// inner dicts, until it returns false. Calls `enter` before an inner dict.
template <class Each, class Enter>
bool every_item(PyObject* state, Each&& each, Enter&& enter) {
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t at = 0;
  while (PyDict_Next(state, &at, &key, &value) != 0) {
    if (!each(key, false) || !each(value, false)) return false;
    if (PyDict_Check(value) == 0) continue;
    enter(value);
    PyObject* inner_key = nullptr;
    PyObject* inner = nullptr;
    Py_ssize_t inner_at = 0;
    while (PyDict_Next(value, &inner_at, &inner_key, &inner) != 0) {
      if (!each(inner_key, false) || !each(inner, true)) return false;
    }
  }
  return true;
}

// A gradient without elements has no address, but null means that there is no gradient. Nothing is read there.
void* address_for_step(void* gradient) {
  static uint64_t no_elements = 0;
  return gradient != nullptr ? gradient : &no_elements;
}

}  // namespace

Walk::Walk(Tensors tensors)
    : tensors_(std::move(tensors)),
      params_name_(checked(PyUnicode_InternFromString("params"))),
      grad_name_(checked(PyUnicode_InternFromString("grad"))) {
  grad_ = Ref(PyObject_GetAttr(tensors_.type(), grad_name_.get()));
  if (grad_.get() == nullptr) {
    PyErr_Clear();
    return;
  }
  get_ = reinterpret_cast<descrgetfunc>(PyType_GetSlot(Py_TYPE(grad_.get()), Py_tp_descr_get));
}

Walk::Lay Walk::keep(const View& view) {
  Lay lay{view.address, view.type, numbers_.size(), view.dimensions};
  numbers_.insert(numbers_.end(), view.sizes, view.sizes + view.dimensions);
  numbers_.insert(numbers_.end(), view.strides, view.strides + view.dimensions);
  return lay;
}

// True if the tensor is exactly as it was bound.
bool Walk::lies(const Lay& lay, const View& view) const {
  if (view.address != lay.address || view.type != lay.type || view.dimensions != lay.dimensions) {
    return false;
  }
  const int64_t* sizes = numbers_.data() + lay.first;
  const int64_t* strides = sizes + lay.dimensions;
  for (size_t i = 0; i < lay.dimensions; ++i) {
    if (view.sizes[i] != sizes[i] || view.strides[i] != strides[i]) return false;
  }
  return true;
}

// True if a gradient has the same elements at the same offsets as such a tensor. A dimension of one
// element may have any stride, and a tensor without elements any strides at all.
bool Walk::fits(const Lay& lay, const View& view) const {
  if (view.type != lay.type || view.dimensions != lay.dimensions) return false;
  const int64_t* sizes = numbers_.data() + lay.first;
  const int64_t* strides = sizes + lay.dimensions;
  bool same = true;
  for (size_t i = 0; i < lay.dimensions; ++i) {
    if (view.sizes[i] != sizes[i]) return false;
    same = same && (sizes[i] == 1 || view.strides[i] == strides[i]);
  }
  return same || !view.has_elements();
}

// The tensor that owns memory: the given one, or a DTensor's local tensor, which may be null.
Ref Walk::plain(PyObject* tensor, bool distributed) const {
  return distributed ? tensors_.local(tensor) : Ref::borrow(tensor);
}

void Walk::add(PyObject* param, int part, size_t slot, PyObject* like, PyObject* sample,
               bool followed) {
  Entry entry;
  entry.param = Ref::borrow(param);
  entry.part = part;
  entry.slot = slot;
  PyTypeObject* type = Py_TYPE(param);
  Ref own(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), grad_name_.get()));
  if (own.get() == nullptr) PyErr_Clear();
  if (get_ != nullptr && own.get() == grad_.get()) entry.type = type;
  if (entries_.size() % kTouched == 0) locals_.push_back(checked(PyList_New(0)));
  if (part >= 0) {
    auto index = static_cast<size_t>(part);
    if (parts_.size() <= index) parts_.resize(index + 1);
    if (parts_[index].size() <= slot) parts_[index].resize(slot + 1, nullptr);
    Ref local = tensors_.local(param);
    entry.distributed = local.get() != nullptr;
    if (!entry.distributed) local = Ref::borrow(param);
    checked(PyList_Append(locals_.back().get(), local.get()));
    View view;
    View of_sample;
    if (!tensors_.view(sample, of_sample)) throw std::invalid_argument("a sample without memory");
    uint64_t gradient_type = of_sample.type;
    if (!tensors_.view(like, view)) throw std::invalid_argument("a weight without memory");
    entry.gradient_lay = keep(view);
    entry.gradient_lay.type = gradient_type;
    if (!tensors_.view(local.get(), view)) {
      throw std::invalid_argument("a parameter without memory");
    }
    entry.lay = keep(view);
    entry.device = tensors_.device(local.get());
    entry.followed = followed;
    if (followed) entry.version = version(entry, local.get());
    any_followed_ = any_followed_ || followed;
  }
  entries_.push_back(std::move(entry));
}

void Walk::counts(PyObject* step) { counted_.push_back(Ref::borrow(step)); }

// The counts may be in freed memory, so their address is checked first.
bool Walk::counts_are_right() {
  for (const Ref& object : counted_) {
    const Step& step = self_of<Step>(object.get());
    View view;
    if (!tensors_.view(step.shown_counts.get(), view) || view.address != step.floats ||
        !step.counts_are_its_own()) {
      return false;
    }
  }
  return true;
}

// A group's parameters as a list, also if the program made them a tuple.
Ref Walk::params_of(PyObject* group) const {
  Ref params = checked(PyObject_GetItem(group, params_name_.get()));
  return PyList_Check(params.get()) != 0 ? std::move(params)
                                         : checked(PySequence_List(params.get()));
}

void Walk::watch(PyObject* state, PyObject* groups) {
  sizes_.clear();
  for_each(groups, [&](PyObject* group) {
    sizes_.push_back(PyList_Size(params_of(group).get()));
    if (sizes_.back() < 0) throw Raised();
  });
  state_.clear();
  bound_.clear();
  state_dicts_.clear();
  every_item(
      state,
      [&](PyObject* object, bool is_value) {
        Item item{Ref::borrow(object), -1};
        if (is_value && tensors_.is_tensor(object)) {
          Bound bound;
          bound.distributed = tensors_.local(object).get() != nullptr;
          View view;
          Ref local = plain(object, bound.distributed);
          if (local.get() != nullptr && tensors_.view(local.get(), view)) {
            bound.lay = keep(view);
            item.bound = static_cast<ptrdiff_t>(bound_.size());
            bound_.push_back(bound);
          }
        }
        state_.push_back(std::move(item));
        return true;
      },
      [&](PyObject* dict) { state_dicts_.push_back(dict); });
}

// True if the state has the same objects, and its tensors have the same memory as when bound. An
// object may stay in the state while its memory moves, as by `tensor.data = …` or share_memory_().
bool Walk::same_state(PyObject* state) {
  size_t next = 0;
  size_t ahead = kAhead;
  return every_item(
             state,
             [&](PyObject* object, bool) {
               if (next == state_.size() || state_[next].object.get() != object) return false;
               ptrdiff_t index = state_[next++].bound;
               if (index < 0) return true;
               const Bound& bound = bound_[static_cast<size_t>(index)];
               fetch_state(next + kAhead);
               View view;
               Ref local = plain(object, bound.distributed);
               if (local.get() == nullptr || !tensors_.view(local.get(), view)) return false;
               bound.local = local.get();
               bound.inside = view.sizes;
               return lies(bound.lay, view);
             },
             [&](PyObject*) {
               if (ahead < state_dicts_.size()) prefetch(state_dicts_[ahead++]);
             }) &&
         next == state_.size();
}

// Reads `param.grad`. If the attribute is torch's own, this skips the search in the type's bases.
Ref Walk::gradient_of(const Entry& entry) const {
  PyObject* param = entry.param.get();
  if (Py_TYPE(param) != entry.type) return checked(PyObject_GetAttr(param, grad_name_.get()));
  return checked(get_(grad_.get(), param, reinterpret_cast<PyObject*>(entry.type)));
}

Walk::Gradient Walk::read(const Entry& entry, void*& address) {
  Ref grad = gradient_of(entry);
  if (grad.get() == Py_None) return Gradient::none;
  entry.gradient = grad.get();
  if (entry.part < 0) return Gradient::unusual;
  if (entry.distributed && !tensors_.is_plain(grad.get())) {
    if (!tensors_.are_placed_alike(entry.param.get(), grad.get())) return Gradient::unusual;
    entry.body = tensors_.body(entry.param.get());
    entry.gradient_body = tensors_.body(grad.get());
    grad = tensors_.local(grad.get());
    if (grad.get() == nullptr) return Gradient::unusual;
    entry.gradient_local = grad.get();
  }
  // A subclass may report address 0 or an unrelated address.
  if (!tensors_.is_plain(grad.get())) return Gradient::unusual;
  View view;
  // A sparse gradient has no address; Python reports it with the parameter's name.
  if (!tensors_.view(grad.get(), view)) return Gradient::unusual;
  entry.gradient_inside = view.sizes;  // a tensor stores its sizes in itself
  if (!fits(entry.gradient_lay, view) || tensors_.device(grad.get()) != entry.device) {
    return Gradient::unusual;
  }
  if (view.address == nullptr && view.has_elements()) return Gradient::unusual;
  // torch negates lazily what it takes from a complex conjugate. Such a view has gaps unless it has
  // a single element.
  bool single =
      std::all_of(view.sizes, view.sizes + view.dimensions, [](int64_t size) { return size == 1; });
  if (single && tensors_.is_negated(grad.get())) return Gradient::unusual;
  address = address_for_step(view.address);
  return Gradient::plain;
}

bool Walk::moved(const Entry& entry, PyObject* local) {
  View view;
  if (local == nullptr || !tensors_.view(local, view)) return true;
  entry.inside = view.sizes;
  entry.local = local;
  return !lies(entry.lay, view);
}

// A DTensor or its local tensor counts its writes.
int64_t Walk::version(const Entry& entry, PyObject* local) const {
  int64_t version = tensors_.version(entry.param.get());
  if (!entry.distributed) return version;
  return version + (local == nullptr ? 0 : tensors_.version(local));
}

void Walk::follow(Entry& entry, PyObject* local) {
  int64_t now = version(entry, local);
  if (now == entry.version) return;
  entry.version = now;
  entry.written = was_written_ = true;
}

std::vector<size_t> Walk::written() {
  std::vector<size_t> found;
  for (size_t i = 0; i < entries_.size(); ++i) {
    Entry& entry = entries_[i];
    if (!entry.followed) continue;
    Ref local = plain(entry.param.get(), entry.distributed);
    follow(entry, local.get());
    if (entry.written || moved(entry, local.get())) found.push_back(i);
  }
  return found;
}

void Walk::settle() {
  for (Entry& entry : entries_) entry.written = false;
  was_written_ = false;
}

void Walk::fetch(size_t index) const {
  if (index >= entries_.size()) return;
  const Entry& entry = entries_[index];
  prefetch(entry.param.get());
  prefetch(entry.gradient);
  if (entry.distributed) {
    prefetch(entry.local);
    prefetch(entry.gradient_local);
    prefetch(reinterpret_cast<const char*>(entry.gradient) + kLine);  // its local tensor's address
    prefetch(entry.body);
    prefetch(entry.gradient_body);
  }
  for (const void* inside : {entry.inside, entry.gradient_inside}) {
    for (ptrdiff_t line = -1; line <= 1; ++line) {
      prefetch(reinterpret_cast<const void*>(reinterpret_cast<intptr_t>(inside) + line * kLine));
    }
  }
}

void Walk::fetch_state(size_t index) const {
  if (index >= state_.size() || state_[index].bound < 0) return;
  const Bound& bound = bound_[static_cast<size_t>(state_[index].bound)];
  prefetch(state_[index].object.get());
  prefetch(bound.inside);
  if (bound.distributed) prefetch(bound.local);
}

// Counts the step's own write to a parameter.
void Walk::count_write(Entry& entry, PyObject* local) const {
  if (entry.part < 0 || local == nullptr) return;
  tensors_.count_write(local);
  ++entry.version;
}

// Calls `call` if `index` ends a list of local tensors; its writes are the step's own.
void Walk::touch(PyObject* call, size_t index) {
  if (index % kTouched != kTouched - 1 && index + 1 != entries_.size()) return;
  checked(PyObject_CallFunctionObjArgs(call, locals_[index / kTouched].get(), nullptr));
  if (!any_followed_) return;
  for (size_t i = index / kTouched * kTouched; i <= index; ++i) ++entries_[i].version;
}

Walk::Found Walk::scan(PyObject* dicts, PyObject* state, PyObject* choices, PyObject* touch,
                       std::vector<size_t>& unusual) {
  size_t index = 0;
  auto size = sizes_.begin();  // groups.same() has checked that the number of groups is the same
  if (!counts_are_right() || !groups.same(dicts, choices)) return Found::changed;
  bool changed = false;
  for_each(dicts, [&](PyObject* group) {
    Ref list = params_of(group);
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
      Entry& entry = entries_[index];
      void* address = nullptr;
      Gradient gradient = read(entry, address);
      Ref local = plain(entry.param.get(), entry.distributed);
      if (entry.part < 0) {
        changed = gradient != Gradient::none;
      } else {
        if (moved(entry, local.get())) changed = true;
        if (entry.followed) follow(entry, local.get());
        if (gradient == Gradient::unusual) unusual.push_back(index);
        parts_[static_cast<size_t>(entry.part)][entry.slot] = address;
      }
      if (touch == Py_None) continue;
      if (tensors_.counts_writes()) {
        count_write(entry, local.get());
      } else {
        this->touch(touch, index);
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
  parts_.at(static_cast<size_t>(entry.part))[entry.slot] = address_for_step(gradient);
}

int Walk::visit(visitproc visit, void* arg) const {
  for (const Entry& entry : entries_) Py_VISIT(entry.param.get());
  for (const Ref& list : locals_) Py_VISIT(list.get());
  for (const Item& item : state_) Py_VISIT(item.object.get());
  for (const Ref& step : counted_) Py_VISIT(step.get());
  return groups.visit(visit, arg);
}

// Dropping a reference may run Python code, so the walk is emptied first.
void Walk::clear() {
  auto entries = std::exchange(entries_, {});
  auto locals = std::exchange(locals_, {});
  auto state = std::exchange(state_, {});
  auto counted = std::exchange(counted_, {});
  parts_.clear();
  groups.clear();
}

}  // namespace stepfuse_python
