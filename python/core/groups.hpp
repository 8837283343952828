// The options in param_groups' dicts and the numbers that steps take from them. Knows CPython and
// the C API's handles.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "python/core/objects.hpp"
#include "python/core/python.hpp"

namespace stepfuse_python {

class Groups {
 public:
  // Takes an argument of a step from item `key` of the dict at `index`, or from that item's own
  // item at `place`.
  void number(PyObject* step, int arg, int group, size_t index, PyObject* key, Py_ssize_t place);
  // Remembers the result of choices() and all items, except the parameters and the keys in `free`,
  // which are numbers or None.
  void watch(PyObject* groups, PyObject* choices, PyObject* free);
  // True if choices() would still give the same. It is called only if an item is a different
  // object, or if a free one has become None or stopped being None.
  bool same(PyObject* groups, PyObject* choices);
  // Passes the changed numbers to the steps.
  void set(PyObject* groups);

  // For Python's garbage collector.
  int visit(visitproc visit, void* arg) const;
  void clear();

 private:
  struct Item {
    Ref key;    // referenced, so that no new key can get its address
    Ref value;  // null if the number is free to change
    bool is_none = false;
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
