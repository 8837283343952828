// One walk over an optimizer's parameters finds the addresses of their gradients and notices other
// changes. Knows CPython, and tensors through their own interfaces.
#pragma once

#include <vector>

#include "python/core/groups.hpp"
#include "python/core/python.hpp"
#include "python/core/tensors.hpp"

namespace stepfuse_python {

class Walk {
 public:
  static constexpr size_t kTouched = 128;
  static constexpr size_t kAhead = 6;  // entries that are prefetched ahead

  explicit Walk(Tensors tensors);

  // Adds a parameter in the order of the groups; part < 0 means that it has had no gradient so far.
  // Its gradient is read in place if its layout is that of `like` and its element type that of
  // `sample`. A parameter with a master is `followed`: writes to it are noticed.
  void add(PyObject* param, int part, size_t slot, PyObject* like, PyObject* sample, bool followed);
  // Adds a step on the CPU, whose f32 counts anyone may write.
  void counts(PyObject* step);
  // Remembers the bound state, its memory, and the number of parameters per group.
  void watch(PyObject* state, PyObject* groups);

  enum class Found { same, changed };
  // Fills the parts' addresses and sets the steps' numbers; `unusual` are parameters whose gradient
  // needs a decision by Python. `groups` are dicts. `touch`, or None, is called with lists of the
  // bound parameters' local tensors, while they are in the cache: it counts the step's own write.
  Found scan(PyObject* groups, PyObject* state, PyObject* choices, PyObject* touch,
             std::vector<size_t>& unusual);
  // The followed parameters that were written or moved since the last step.
  std::vector<size_t> written();
  // True if a scan found a write. settle() marks all writes as handled.
  bool was_written() const { return was_written_; }
  void settle();

  // How tensors are read.
  const char* asks() const { return tensors_.way(); }
  void set(size_t index, void* gradient);
  const std::vector<void*>& gradients(size_t part) const { return parts_.at(part); }
  // True if the last scan found any gradient.
  bool any() const;

  // For Python's garbage collector.
  int visit(visitproc visit, void* arg) const;
  void clear();

  Groups groups;

 private:
  // A tensor's layout when it was bound.
  struct Lay {
    void* address = nullptr;
    uint64_t type = 0;
    size_t first = 0;  // index in numbers_ of its sizes, followed by its strides
    size_t dimensions = 0;
  };
  struct Entry {
    Ref param;
    PyTypeObject* type = nullptr;  // null unless its `grad` is the tensor type's own
    int part = -1;
    size_t slot = 0;
    bool distributed = false;
    bool followed = false;
    bool written = false;
    int64_t version = 0;  // after the last step, if followed
    Lay lay;
    Lay gradient_lay;
    int64_t device = 0;
    // Addresses at the last look: libtorch's part of the parameter, the gradient, and libtorch's
    // part of the gradient.
    mutable const void* inside = nullptr;
    mutable const void* gradient = nullptr;
    mutable const void* gradient_inside = nullptr;
    // If it is a DTensor: the addresses of the local tensors and of torch's parts of the DTensors.
    mutable const void* local = nullptr;
    mutable const void* gradient_local = nullptr;
    mutable const void* body = nullptr;
    mutable const void* gradient_body = nullptr;
  };
  struct Item {  // of the state: a key or a value
    Ref object;
    ptrdiff_t bound = -1;  // index in bound_ of a tensor
  };
  struct Bound {
    Lay lay;
    bool distributed = false;
    mutable const void* inside = nullptr;
    mutable const void* local = nullptr;
  };
  enum class Gradient { none, plain, unusual };
  Ref params_of(PyObject* group) const;
  Lay keep(const View& view);
  bool lies(const Lay& lay, const View& view) const;
  bool fits(const Lay& lay, const View& view) const;
  Ref plain(PyObject* tensor, bool distributed) const;
  Ref gradient_of(const Entry& entry) const;
  Gradient read(const Entry& entry, void*& address);
  bool moved(const Entry& entry, PyObject* local);
  int64_t version(const Entry& entry, PyObject* local) const;
  void follow(Entry& entry, PyObject* local);
  void count_write(Entry& entry, PyObject* local) const;
  void touch(PyObject* call, size_t index);
  bool counts_are_right();
  bool same_state(PyObject* state);
  void fetch(size_t index) const;
  void fetch_state(size_t index) const;

  Tensors tensors_;
  Ref params_name_;
  Ref grad_name_;
  Ref grad_;  // the tensor type's descriptor
  descrgetfunc get_ = nullptr;
  std::vector<Entry> entries_;
  std::vector<int64_t> numbers_;
  std::vector<Ref> locals_;  // lists with kTouched entries each
  std::vector<std::vector<void*>> parts_;
  std::vector<Py_ssize_t> sizes_;  // parameters per group
  std::vector<Item> state_;
  std::vector<Bound> bound_;
  std::vector<const void*> state_dicts_;
  std::vector<Ref> counted_;  // steps
  bool any_followed_ = false;
  bool was_written_ = false;
};

}  // namespace stepfuse_python
