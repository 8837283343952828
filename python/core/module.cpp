// The module stepfuse._core: the C API's handles and the walk, for the Python code above.
#include <cmath>

#include "python/core/objects.hpp"
#include "python/core/walk.hpp"

namespace stepfuse_python {
namespace {

PyTypeObject* the_walk_type = nullptr;

PyObject* walk_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&] {
    PyObject* capsule = nullptr;
    PyObject* tensor_type = nullptr;
    PyObject* samples = nullptr;
    if (PyArg_ParseTuple(args, "OOO:Walk", &capsule, &tensor_type, &samples) == 0) throw Raised();
    const dlpack::ExchangeApi* api = nullptr;
    if (capsule != Py_None) {
      api = static_cast<const dlpack::ExchangeApi*>(
          PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
      if (api == nullptr) throw Raised();
      if (api->major != 1 || api->tensor_from_object == nullptr) api = nullptr;
    }
    return Ref(instance(type, new Walk(Tensors(api, tensor_type, samples))));
  });
}

PyObject* walk_add(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* param = nullptr;
    int part = 0;
    unsigned long long slot = 0;
    PyObject* like = nullptr;
    PyObject* sample = nullptr;
    int followed = 0;
    if (PyArg_ParseTuple(args, "OiKOOp:add", &param, &part, &slot, &like, &sample, &followed) ==
        0) {
      throw Raised();
    }
    self_of<Walk>(self).add(param, part, slot, like, sample, followed != 0);
    return none();
  });
}

PyObject* walk_watch(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* state = nullptr;
    PyObject* groups = nullptr;
    PyObject* choices = nullptr;
    PyObject* free = nullptr;
    if (PyArg_ParseTuple(args, "O!O!OO:watch", &PyDict_Type, &state, &PyList_Type, &groups,
                         &choices, &free) == 0) {
      throw Raised();
    }
    self_of<Walk>(self).watch(state, groups);
    self_of<Walk>(self).groups.watch(groups, choices, free);
    return none();
  });
}

PyObject* walk_number(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* step = nullptr;
    int arg = 0;
    int group = 0;
    unsigned long long index = 0;
    PyObject* key = nullptr;
    Py_ssize_t place = 0;
    if (PyArg_ParseTuple(args, "O!iiKOn:number", step_type(), &step, &arg, &group, &index, &key,
                         &place) == 0) {
      throw Raised();
    }
    self_of<Walk>(self).groups.number(step, arg, group, index, key, place);
    return none();
  });
}

PyObject* walk_counts(PyObject* self, PyObject* step) {
  return guarded([&] {
    if (PyObject_TypeCheck(step, step_type()) == 0) {
      PyErr_SetString(PyExc_TypeError, "counts are a Step's");
      throw Raised();
    }
    self_of<Walk>(self).counts(step);
    return none();
  });
}

Ref to_list(const std::vector<size_t>& indices) {
  Ref list = checked(PyList_New(0));
  for (size_t index : indices) {
    checked(PyList_Append(list.get(), checked(PyLong_FromSize_t(index)).get()));
  }
  return list;
}

PyObject* walk_scan(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* groups = nullptr;
    PyObject* state = nullptr;
    PyObject* choices = nullptr;
    PyObject* touch = Py_None;
    if (PyArg_ParseTuple(args, "OO!O|O:scan", &groups, &PyDict_Type, &state, &choices, &touch) ==
        0) {
      throw Raised();
    }
    std::vector<size_t> unusual;
    if (self_of<Walk>(self).scan(groups, state, choices, touch, unusual) == Walk::Found::changed)
      return none();
    return to_list(unusual);
  });
}

PyObject* walk_was_written(PyObject* self, PyObject*) {
  return guarded(
      [&] { return checked(PyBool_FromLong(self_of<Walk>(self).was_written() ? 1 : 0)); });
}

PyObject* walk_written(PyObject* self, PyObject*) {
  return guarded([&] { return to_list(self_of<Walk>(self).written()); });
}

PyObject* walk_asks(PyObject* self, PyObject*) {
  return guarded([&] { return checked(PyUnicode_FromString(self_of<Walk>(self).asks())); });
}

PyObject* walk_settle(PyObject* self, PyObject*) {
  return guarded([&] {
    self_of<Walk>(self).settle();
    return none();
  });
}

PyObject* walk_set(PyObject* self, PyObject* args) {
  return guarded([&] {
    unsigned long long index = 0;
    PyObject* address = nullptr;
    if (PyArg_ParseTuple(args, "KO:set", &index, &address) == 0) throw Raised();
    self_of<Walk>(self).set(index, to_address(address));
    return none();
  });
}

PyObject* walk_any(PyObject* self, PyObject*) {
  return guarded([&] { return checked(PyBool_FromLong(self_of<Walk>(self).any() ? 1 : 0)); });
}

// Compares addresses without reading the items, which are in no cache.
PyObject* same_items(PyObject*, PyObject* args) {
  return guarded([&] {
    PyObject* lists = nullptr;
    PyObject* flat = nullptr;
    if (PyArg_ParseTuple(args, "OO!:same_items", &lists, &PyList_Type, &flat) == 0) throw Raised();
    Py_ssize_t at = 0;
    bool same = true;
    for_each(lists, [&](PyObject* list) {
      Py_ssize_t count = PyList_Size(list);
      if (count < 0) throw Raised();
      same = same && at + count <= PyList_Size(flat);
      for (Py_ssize_t i = 0; i < count && same; ++i, ++at) {
        same = PyList_GetItem(list, i) == PyList_GetItem(flat, at);
      }
    });
    return checked(PyBool_FromLong(same && at == PyList_Size(flat) ? 1 : 0));
  });
}

// torch's root has an error of one ulp on the CPU, and on a GPU it takes a third kernel after a
// conversion.
PyObject* take_root(PyObject*, PyObject* address) {
  return guarded([&] {
    auto* number = static_cast<float*>(to_address(address));
    *number = std::sqrt(*number);
    return none();
  });
}

PyMethodDef functions[] = {
    {"same_items", same_items, METH_VARARGS,
     "same_items(lists, list): returns whether the list has the items of the lists, in order."},
    {"take_root", take_root, METH_O, "Replaces the f32 at a host address by its square root."},
    {}};
PyMethodDef walk_methods[] = {
    {"add", walk_add, METH_VARARGS,
     "add(parameter, part or -1, slot, a tensor in its gradient's layout, a tensor of its "
     "gradient's "
     "type, whether writes to it are noticed)"},
    {"watch", walk_watch, METH_VARARGS,
     "watch(state, groups, choices, free): remembers the bound state, a dict of dicts, and the "
     "groups, a list of dicts. Their items determine `choices`, except for the keys in `free`."},
    {"number", walk_number, METH_VARARGS,
     "number(step, argument's index, step's group or -1, index of a dict, key, index in its value "
     "or "
     "-1): says which number an argument is."},
    {"counts", walk_counts, METH_O,
     "Adds a step whose counts are a tensor that may be written to."},
    {"scan", walk_scan, METH_VARARGS,
     "scan(groups, state, function of the choices, function of lists of local tensors or None): "
     "returns None if anything but gradients and numbers has changed, otherwise the indices of "
     "parameters whose gradient Python must look at."},
    {"was_written", walk_was_written, METH_NOARGS,
     "Returns whether a scan found a write to a parameter whose writes are noticed."},
    {"written", walk_written, METH_NOARGS,
     "Returns the indices of parameters that were written to or have moved."},
    {"asks", walk_asks, METH_NOARGS,
     "Says how tensors are asked for their memory: by libtorch, DLPack or their methods."},
    {"settle", walk_settle, METH_NOARGS, "Forgets all writes, because they have been handled."},
    {"set", walk_set, METH_VARARGS, "set(index, address): sets the address of a gradient."},
    {"any", walk_any, METH_NOARGS, "Returns whether the last scan found any gradient."},
    {}};
PyType_Slot walk_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(walk_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate<Walk>)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Walk>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<Walk>)},
    {Py_tp_methods, walk_methods},
    {Py_tp_doc,
     const_cast<char*>("Walk(DLPack's exchange API or None, type of plain tensors, some of them)")},
    {}};
PyType_Spec walk_spec = {"stepfuse._core.Walk", sizeof(Object<Walk>), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, walk_slots};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "stepfuse._core",
                          "The C library's handles; for the rest of the package only.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

void add_walk_type(PyObject* module) {
  the_walk_type = add_type(module, "Walk", walk_spec);
  if (PyModule_AddFunctions(module, functions) != 0) throw Raised();
}
PyTypeObject* walk_type() { return the_walk_type; }

}  // namespace stepfuse_python

PyMODINIT_FUNC PyInit__core() {
  using namespace stepfuse_python;
  return guarded([] {
    Ref module = checked(PyModule_Create(&definition));
    error_type = PyErr_NewExceptionWithDoc(
        "stepfuse.Error", "Raised if stepfuse cannot do something; the message says what to do.",
        PyExc_RuntimeError, nullptr);
    checked(PyModule_AddObjectRef(module.get(), "Error", error_type));
    checked(PyModule_AddStringConstant(module.get(), "version", stepfuse_version()));
    add_program_types(module.get());
    add_step_type(module.get());
    add_walk_type(module.get());
    return module;
  });
}
