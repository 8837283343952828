// One walk over an optimizer's parameters: the addresses of their gradients, and whether anything
// else changed. Knows CPython, and tensors through what they say of themselves.
#pragma once

#include <vector>

#include "python/core/groups.hpp"
#include "python/core/python.hpp"
#include "python/core/tensors.hpp"

namespace stepfuse_python {

class Walk {
 public:
  static constexpr size_t kTouched = 128;
  static constexpr size_t kAhead = 6;  // entries that are fetched before they are looked at

  explicit Walk(Tensors tensors);

  // A parameter in the order of the groups; part < 0: it has had no gradient so far. Its gradient is
  // read in place if it lies as `like` and has elements of the type of `sample`. A parameter with a
  // master is `followed`: writes to it are noticed.
  void add(PyObject* param, int part, size_t slot, PyObject* like, PyObject* sample, bool followed);
  // A step on the CPU, whose f32 counts everybody may write to.
  void counts(PyObject* step);
  // Remembers whose state is bound, where it lies, and how many parameters each of the groups has.
  void watch(PyObject* state, PyObject* groups);

  enum class Found { same, changed };
  // Fills the parts' addresses and sets the steps' numbers; `odd` are the parameters whose gradient
  // only Python can judge. `groups` are dicts. `touch`, or None, is called with lists of the bound
  // parameters' local tensors, while they are in the cache: it counts the step's own write.
  Found scan(PyObject* groups, PyObject* state, PyObject* choices, PyObject* touch,
             std::vector<size_t>& odd);
  // The followed parameters that somebody wrote to since the last step, or that lie elsewhere.
  std::vector<size_t> written();
  // Whether a scan found a write; and that all are dealt with.
  bool was_written() const { return was_written_; }
  void settle();

  // How tensors are asked.
  const char* asks() const { return tensors_.way(); }
  void set(size_t index, void* gradient);
  const std::vector<void*>& gradients(size_t part) const { return parts_.at(part); }
  // Whether the last scan found any gradient.
  bool any() const;

  // For Python's garbage collector.
  int visit(visitproc visit, void* arg) const;
  void clear();

  Groups groups;

 private:
  // How a tensor lay when it was bound.
  struct Lay {
    void* address = nullptr;
    uint64_t type = 0;
    size_t first = 0;  // in numbers_: its sizes, then its strides
    size_t dimensions = 0;
  };
  struct Entry {
    Ref param;
    PyTypeObject* type = nullptr;  // if its `grad` is the tensor type's own
    int part = -1;
    size_t slot = 0;
    bool distributed = false;
    bool empty = false;  // a plain tensor without elements that had a gradient when it was bound
    bool followed = false;
    bool written = false;
    int64_t version = 0;  // after the last step, of a followed parameter
    Lay lay;
    Lay gradient_lay;
    int64_t device = 0;
    // Where libtorch's part of the parameter was at the last look, its gradient, and that one's part.
    mutable const void* inside = nullptr;
    mutable const void* gradient = nullptr;
    mutable const void* gradient_inside = nullptr;
    // If it is a DTensor: where the local tensors were, and torch's parts of the DTensors.
    mutable const void* local = nullptr;
    mutable const void* gradient_local = nullptr;
    mutable const void* body = nullptr;
    mutable const void* gradient_body = nullptr;
  };
  struct Item {  // of the state: a key or a value
    Ref object;
    ptrdiff_t bound = -1;  // in bound_, of a tensor
  };
  struct Bound {
    Lay lay;
    bool distributed = false;
    mutable const void* inside = nullptr;
    mutable const void* local = nullptr;
  };
  enum class Gradient { none, plain, odd };
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
  std::vector<Ref> locals_;  // lists of kTouched entries' each
  std::vector<std::vector<void*>> parts_;
  std::vector<Py_ssize_t> sizes_;  // of the groups
  std::vector<Item> state_;
  std::vector<Bound> bound_;
  std::vector<const void*> state_dicts_;
  std::vector<Ref> counted_;  // steps
  bool any_followed_ = false;
  bool was_written_ = false;
};

}  // namespace stepfuse_python
