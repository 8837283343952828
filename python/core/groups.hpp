// The inputs of a binding beside its tensors: the options in param_groups' dicts, and the numbers
// that steps take from them. Knows CPython and the C API's handles.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "python/core/objects.hpp"
#include "python/core/python.hpp"

namespace stepfuse_python {

class Groups {
 public:
  // An argument of a step is the item `key` of the dict at `index`, or that item's own at `place`.
  void number(PyObject* step, int arg, int group, size_t index, PyObject* key, Py_ssize_t place);
  // Remembers all items but the parameters and those of the keys in `free`, which are numbers only,
  // and what choices() says.
  void watch(PyObject* groups, PyObject* choices, PyObject* free);
  // Whether choices() would still say that, which is asked where any item is another object.
  bool same(PyObject* groups, PyObject* choices);
  // Sets the numbers that changed.
  void set(PyObject* groups);

  // For Python's garbage collector.
  int visit(visitproc visit, void* arg) const;
  void clear();

 private:
  struct Item {
    Ref key;    // held: another key must not get its address
    Ref value;  // none where it is free
  };
  struct Number {
    Ref step;
    int arg = 0;
    int group = -1;
    size_t index = 0;
    Ref key;
    Py_ssize_t place = -1;
    std::optional<uint64_t> last;  // its bits
  };
  bool same_items(PyObject* groups) const;
  void remember(PyObject* groups);
  bool is_free(PyObject* key) const;

  std::vector<std::vector<Item>> groups_;
  Ref said_;
  Ref free_;
  std::vector<Number> numbers_;
};

}  // namespace stepfuse_python
