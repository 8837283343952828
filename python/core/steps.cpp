// Step: one compiled step over a list of tensors, run with the addresses that a walk found.
#include <exception>
#include <string>
#include <utility>

#include "python/core/allocator.hpp"
#include "python/core/capsule.hpp"
#include "python/core/objects.hpp"
#include "python/core/walk.hpp"

namespace stepfuse_python {
namespace {

PyTypeObject* the_step_type = nullptr;

// PyArg_ParseTuple would silently truncate a larger number.
uint32_t to_id(PyObject* number) {
  unsigned long long id = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred() != nullptr) throw Raised();
  if (id > UINT32_MAX) {
    PyErr_Format(PyExc_OverflowError, "id %llu of a tensor does not fit into 32 bits", id);
    throw Raised();
  }
  return static_cast<uint32_t>(id);
}

void add_tensors(stepfuse_layout* layout, PyObject* tensors) {
  for_each(tensors, [&](PyObject* item) {
    const char* name = nullptr;
    unsigned long long elements = 0;
    PyObject* number = nullptr;
    stepfuse_tensor tensor = STEPFUSE_TENSOR;
    unsigned long long offset = 0;  // of a shard in its tensor
    unsigned long long full_size = 0;
    unsigned long long columns = 0;
    int uncounted = 0;
    if (PyArg_ParseTuple(item, "sKipO|KKK", &name, &elements, &tensor.group, &uncounted, &number,
                         &offset, &full_size, &columns) == 0) {
      throw Raised();
    }
    uint32_t id = to_id(number);
    tensor.id = &id;
    tensor.counted = uncounted == 0;
    tensor.name = name;
    tensor.elements = elements;
    tensor.offset = offset;
    tensor.full_elements = full_size;
    tensor.columns = columns;
    tensor.present_by_gradient = 1;
    check(stepfuse_layout_add(layout, &tensor));
  });
}

PyObject* step_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
  return guarded([&] {
    PyObject* program = nullptr;
    PyObject* tensors = nullptr;
    PyObject* scaler = nullptr;
    PyObject* allocator = Py_None;
    stepfuse_device device = STEPFUSE_DEVICE;
    stepfuse_step_options options = STEPFUSE_STEP_OPTIONS;
    if (PyArg_ParseTuple(arguments, "O!OiiiOp|O:Step", program_type(), &program, &tensors,
                         &device.kind, &device.ordinal, &device.threads, &scaler, &options.observe,
                         &allocator) == 0) {
      throw Raised();
    }
    stepfuse_layout* made = nullptr;
    check(stepfuse_layout_create(&made));
    std::unique_ptr<stepfuse_layout, Destroy<stepfuse_layout_destroy>> layout(made);
    add_tensors(layout.get(), tensors);
    auto value = std::make_unique<Step>();
    if (scaler != Py_None) {
      if (PyObject_TypeCheck(scaler, scaler_type()) == 0) {
        PyErr_SetString(PyExc_TypeError, "the scaler is a Scaler or None");
        throw Raised();
      }
      value->scaler = Ref::borrow(scaler);
      options.scaler = self_of<Scaler>(scaler).handle.get();
    }
    if (allocator != Py_None) {
      set_allocator(&options, allocator);
      value->allocator = Ref::borrow(allocator);
    }
    stepfuse_step* step = nullptr;
    check_unlocked([&] {
      return stepfuse_step_create(self_of<Program>(program).handle.get(), layout.get(), &device,
                                  &options, &step);
    });
    value->handle.reset(step);
    check_unlocked([&] { return stepfuse_step_prepare(step); });
    stepfuse_args* args = nullptr;
    check(stepfuse_step_make_args(step, &args));
    value->args.reset(args);
    stepfuse_stats* stats = nullptr;
    check(stepfuse_stats_create(&stats));
    value->stats.reset(stats);
    value->tensors = static_cast<size_t>(PySequence_Size(tensors));
    return Ref(instance(type, value.release()));
  });
}

PyObject* step_bind(PyObject* self, PyObject* args) {
  return guarded([&] {
    const char* buffer = nullptr;
    PyObject* addresses = nullptr;
    if (PyArg_ParseTuple(args, "sO:bind", &buffer, &addresses) == 0) throw Raised();
    std::vector<void*> pointers;
    for_each(addresses, [&](PyObject* address) { pointers.push_back(to_address(address)); });
    check_unlocked([&] {
      return stepfuse_step_bind(self_of<Step>(self).handle.get(), buffer, pointers.data(),
                                pointers.size());
    });
    return none();
  });
}

PyObject* step_adopt_state(PyObject* self, PyObject*) {
  return guarded([&] {
    check_unlocked([&] { return stepfuse_step_adopt_state(self_of<Step>(self).handle.get()); });
    return none();
  });
}

PyObject* step_set(PyObject* self, PyObject* args) {
  return guarded([&] {
    int arg = 0;
    int group = 0;
    double value = 0;
    if (PyArg_ParseTuple(args, "iid:set", &arg, &group, &value) == 0) throw Raised();
    stepfuse_args* all = self_of<Step>(self).args.get();
    check(group < 0 ? stepfuse_args_set(all, arg, value)
                    : stepfuse_args_set_member(all, arg, group, value));
    return none();
  });
}

// Takes the arguments to the step's block on the device. Runs read them there from now on: a captured run
// cannot have them on the host.
PyObject* step_push(PyObject* self, PyObject* stream) {
  return guarded([&] {
    Step& step = self_of<Step>(self);
    stepfuse_stream handle = to_address(stream);
    check_unlocked(
        [&] { return stepfuse_step_set_args(step.handle.get(), step.args.get(), handle); });
    step.reads_block = true;
    return none();
  });
}

const stepfuse_args* args_of(const Step& step) {
  return step.reads_block ? nullptr : step.args.get();
}

PyObject* step_write_state(PyObject* self, PyObject* args) {
  return guarded([&] {
    const char* name = nullptr;
    PyObject* values = nullptr;
    if (PyArg_ParseTuple(args, "sO:write_state", &name, &values) == 0) throw Raised();
    std::vector<uint64_t> words;
    for_each(values, [&](PyObject* value) {
      words.push_back(static_cast<uint64_t>(PyLong_AsLongLong(value)));
      if (PyErr_Occurred() != nullptr) throw Raised();
    });
    check_unlocked([&] {
      return stepfuse_step_write_state(self_of<Step>(self).handle.get(), name, words.data(),
                                       words.size(), nullptr);
    });
    return none();
  });
}

PyObject* step_read_state(PyObject* self, PyObject* name) {
  return guarded([&] {
    const stepfuse_step* step = self_of<Step>(self).handle.get();
    const char* text = to_text(name);
    size_t count = 0;
    check(stepfuse_step_read_state(step, text, nullptr, 0, &count, nullptr));
    std::vector<uint64_t> words(count);
    check_unlocked(
        [&] { return stepfuse_step_read_state(step, text, words.data(), count, &count, nullptr); });
    Ref list = checked(PyList_New(0));
    for (uint64_t word : words) {
      checked(PyList_Append(list.get(),
                            checked(PyLong_FromLongLong(static_cast<int64_t>(word))).get()));
    }
    return list;
  });
}

template <auto function>
PyObject* step_with_file(PyObject* self, PyObject* path) {
  return guarded([&] {
    const char* file = to_text(path);
    stepfuse_step* step = self_of<Step>(self).handle.get();
    check_unlocked([&] { return function(file, step); });
    return none();
  });
}

// Shows Python the f32 counts of a step on the CPU, where the state is in host memory. Runs update
// them as well.
PyObject* step_show_counts(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* tensor = nullptr;
    PyObject* address = nullptr;
    if (PyArg_ParseTuple(args, "OO:show_counts", &tensor, &address) == 0) throw Raised();
    Step& step = self_of<Step>(self);
    void* counts = nullptr;
    check(stepfuse_step_device_state(step.handle.get(), "step", &counts));
    step.floats = static_cast<float*>(to_address(address));
    step.counts = static_cast<const int64_t*>(counts);
    step.shown_counts = Ref::borrow(tensor);
    return none();
  });
}

PyObject* step_run(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* walk = nullptr;
    int part = 0;
    PyObject* stream = nullptr;
    if (PyArg_ParseTuple(args, "OiO:run", &walk, &part, &stream) == 0) throw Raised();
    const Step& step = self_of<Step>(self);
    static const std::vector<void*> kNone;
    if (walk != Py_None && PyObject_TypeCheck(walk, walk_type()) == 0) {
      PyErr_SetString(PyExc_TypeError, "the walk is a Walk or None");
      throw Raised();
    }
    const std::vector<void*>& gradients =
        walk == Py_None ? kNone : self_of<Walk>(walk).gradients(static_cast<size_t>(part));
    stepfuse_stream handle = to_address(stream);
    check_unlocked([&] {
      return stepfuse_step_run(step.handle.get(), gradients.data(), gradients.size(), args_of(step),
                               handle);
    });
    if (step.floats != nullptr) {
      for (size_t i = 0; i < step.tensors; ++i) step.floats[i] = static_cast<float>(step.counts[i]);
    }
    return none();
  });
}

// Runs the first phase alone, and the next run continues from it. The library drops a first phase
// without a run after it.
PyObject* step_reduce(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* walk = nullptr;
    int part = 0;
    PyObject* stream = nullptr;
    int again = 0;
    if (PyArg_ParseTuple(args, "O!iOp:reduce", walk_type(), &walk, &part, &stream, &again) == 0) {
      throw Raised();
    }
    const Step& step = self_of<Step>(self);
    const std::vector<void*>& gradients = self_of<Walk>(walk).gradients(static_cast<size_t>(part));
    stepfuse_stream handle = to_address(stream);
    check_unlocked([&] {
      stepfuse_status status = STEPFUSE_OK;
      if (again != 0) {
        status = stepfuse_step_observe(step.handle.get(), 0, gradients.data(), gradients.size(),
                                       args_of(step), handle);
      }
      return status != STEPFUSE_OK ? status
                                   : stepfuse_step_reduce(step.handle.get(), gradients.data(),
                                                          gradients.size(), args_of(step), handle);
    });
    return none();
  });
}

// Runs the first phase for some tensors, whose gradients are ready earlier than the others'.
PyObject* step_observe(PyObject* self, PyObject* args) {
  return guarded([&] {
    PyObject* walk = nullptr;
    int part = 0;
    unsigned long long first = 0;
    unsigned long long count = 0;
    PyObject* stream = nullptr;
    if (PyArg_ParseTuple(args, "O!iKKO:observe", walk_type(), &walk, &part, &first, &count,
                         &stream) == 0) {
      throw Raised();
    }
    const Step& step = self_of<Step>(self);
    const std::vector<void*>& gradients = self_of<Walk>(walk).gradients(static_cast<size_t>(part));
    if (first > gradients.size() || count > gradients.size() - first) {
      PyErr_SetString(PyExc_IndexError, "the part has fewer tensors");
      throw Raised();
    }
    stepfuse_stream handle = to_address(stream);
    check_unlocked([&] {
      return stepfuse_step_observe(step.handle.get(), first, gradients.data() + first, count,
                                   args_of(step), handle);
    });
    return none();
  });
}

PyObject* step_partials(PyObject* self, PyObject* args) {
  return guarded([&] {
    int device_type = 0;
    int device_id = 0;
    int pieces = 0;
    if (PyArg_ParseTuple(args, "iip:partials", &device_type, &device_id, &pieces) == 0) {
      throw Raised();
    }
    const stepfuse_step* step = self_of<Step>(self).handle.get();
    void* block = nullptr;
    size_t bytes = 0;
    size_t count = 0;
    check(stepfuse_step_partials(step, &block, &bytes, &count));
    Ref result = checked(PyDict_New());
    for (size_t i = 0; i < count; ++i) {
      stepfuse_partial partial = STEPFUSE_PARTIAL;
      check(stepfuse_step_partial(step, i, &partial));
      if (partial.pipeline == 0) continue;
      dlpack::Type type = partial.dtype == STEPFUSE_F32 ? dlpack::kF32 : dlpack::kBool;
      Ref capsule = pieces != 0 ? number_capsule(self, partial.pieces, device_type, device_id, type,
                                                 partial.piece_count)
                                : number_capsule(self, static_cast<char*>(block) + partial.offset,
                                                 device_type, device_id, type);
      checked(PyDict_SetItemString(result.get(), partial.name, capsule.get()));
    }
    return result;
  });
}

PyObject* step_numbers(PyObject* self, PyObject* args) {
  return guarded([&] {
    const char* name = nullptr;
    int device_type = 0;
    int device_id = 0;
    if (PyArg_ParseTuple(args, "sii:numbers", &name, &device_type, &device_id) == 0) throw Raised();
    const Step& step = self_of<Step>(self);
    void* address = nullptr;
    check(stepfuse_step_device_state(step.handle.get(), name, &address));
    return number_capsule(self, address, device_type, device_id, dlpack::kF32, step.tensors);
  });
}

// Returns the reports of the newest finished step, or null if there is none. The arguments are those of
// stats() and lists(), and `format` parses them.
const stepfuse_stats* newest(PyObject* self, PyObject* args, const char* format) {
  int wait = 0;
  PyObject* stream = nullptr;
  if (PyArg_ParseTuple(args, format, &wait, &stream) == 0) throw Raised();
  const Step& step = self_of<Step>(self);
  stepfuse_stream handle = to_address(stream);
  stepfuse_stats* stats = step.stats.get();
  int32_t found = 0;
  if (wait != 0) {
    check_unlocked([&] { return stepfuse_step_stats(step.handle.get(), handle, stats, &found); });
  } else {
    check(stepfuse_step_latest(step.handle.get(), stats, &found));
  }
  return found != 0 ? stats : nullptr;
}

Ref numbers_of(const stepfuse_stats* stats) {
  Ref result = checked(PyDict_New());
  for (size_t i = 0; i < stepfuse_stats_count(stats); ++i) {
    const char* name = stepfuse_stats_name(stats, i);
    double value = 0;
    check(stepfuse_stats_get(stats, name, &value));
    checked(PyDict_SetItemString(result.get(), name, checked(PyFloat_FromDouble(value)).get()));
  }
  return result;
}

Ref lists_of(const stepfuse_stats* stats) {
  Ref result = checked(PyDict_New());
  for (size_t i = 0; i < stepfuse_stats_list_count(stats); ++i) {
    const char* name = stepfuse_stats_list_name(stats, i);
    const double* values = nullptr;
    size_t count = 0;
    check(stepfuse_stats_list(stats, name, &values, &count));
    Ref list = checked(PyList_New(0));
    for (size_t v = 0; v < count; ++v) {
      checked(PyList_Append(list.get(), checked(PyFloat_FromDouble(values[v])).get()));
    }
    checked(PyDict_SetItemString(result.get(), name, list.get()));
  }
  return result;
}

PyObject* step_stats(PyObject* self, PyObject* args) {
  return guarded([&] {
    const stepfuse_stats* stats = newest(self, args, "pO:stats");
    return stats != nullptr ? numbers_of(stats) : none();
  });
}

PyObject* step_lists(PyObject* self, PyObject* args) {
  return guarded([&] {
    const stepfuse_stats* stats = newest(self, args, "pO:lists");
    return stats != nullptr ? lists_of(stats) : none();
  });
}

// The reports of a history. The callback must not throw.
struct History {
  uint64_t first = 0;
  Ref list;
  std::exception_ptr failure;
};

void add_to_history(void* user, const stepfuse_stats* stats) {
  auto& history = *static_cast<History*>(user);
  if (history.failure || stepfuse_stats_index(stats) < history.first) return;
  try {
    Ref index = checked(PyLong_FromUnsignedLongLong(stepfuse_stats_index(stats)));
    Ref entry = checked(PyTuple_Pack(2, index.get(), numbers_of(stats).get()));
    checked(PyList_Append(history.list.get(), entry.get()));
  } catch (...) {
    history.failure = std::current_exception();
  }
}

PyObject* step_history(PyObject* self, PyObject* first) {
  return guarded([&] {
    History history{PyLong_AsUnsignedLongLong(first), checked(PyList_New(0)), {}};
    if (PyErr_Occurred() != nullptr) throw Raised();
    check(stepfuse_step_history(self_of<Step>(self).handle.get(), add_to_history, &history));
    if (history.failure) std::rethrow_exception(history.failure);
    return std::move(history.list);
  });
}

PyMethodDef step_methods[] = {
    {"bind", step_bind, METH_VARARGS, "bind(buffer, addresses)"},
    {"adopt_state", step_adopt_state, METH_NOARGS,
     "Takes the contents of the bound arrays as the state to continue from."},
    {"set", step_set, METH_VARARGS, "set(argument's index, group or -1, value)"},
    {"push", step_push, METH_O,
     "push(stream): takes the arguments to the device, where later runs, captured ones too, read "
     "them"},
    {"write_state", step_write_state, METH_VARARGS, "write_state(name, integers)"},
    {"read_state", step_read_state, METH_O, "read_state(name): integers; waits for the device"},
    {"save", step_with_file<stepfuse_save_checkpoint>, METH_O, "save(path): a checkpoint's file"},
    {"load", step_with_file<stepfuse_load_checkpoint>, METH_O,
     "load(path): from a checkpoint's file"},
    {"show_counts", step_show_counts, METH_VARARGS,
     "show_counts(f32 tensor, its address): where every run writes its counts, of a step on the "
     "CPU"},
    {"run", step_run, METH_VARARGS,
     "run(walk, or None where the step takes no gradients, part, stream)"},
    {"reduce", step_reduce, METH_VARARGS,
     "reduce(walk, part, stream, again): the part of a step that only reads gradients; `again` "
     "where "
     "no run came after the last one"},
    {"observe", step_observe, METH_VARARGS,
     "observe(walk, part, first, count, stream): the same for some tensors, ahead of the others"},
    {"partials", step_partials, METH_VARARGS,
     "partials(DLPack's device type, device, pieces): what norm and check reduce over the "
     "gradients, by name, "
     "each a DLPack capsule of its place on the device; or of what it is folded from"},
    {"numbers", step_numbers, METH_VARARGS,
     "numbers(name, DLPack's device type, device): an f32 state of tensors, a DLPack capsule of "
     "its "
     "place on the device"},
    {"stats", step_stats, METH_VARARGS, "stats(wait, stream): the newest finished step's reports"},
    {"lists", step_lists, METH_VARARGS,
     "lists(wait, stream): its reports with a value per group or tensor"},
    {"history", step_history, METH_O,
     "history(first): number and reports of the finished steps from that number on, as far as they "
     "are kept; does not wait"},
    {}};
PyType_Slot step_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(step_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate<Step>)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse<Step>)},
    {Py_tp_clear, reinterpret_cast<void*>(clear<Step>)},
    {Py_tp_methods, step_methods},
    {Py_tp_doc, const_cast<char*>("Step(program, [(name, elements, group, uncounted, id, offset, "
                                  "full size)], device's kind, "
                                  "ordinal, threads, scaler or None, whether reduce() is called, "
                                  "allocator or None): "
                                  "compiled.")},
    {}};
PyType_Spec step_spec = {"stepfuse._core.Step", sizeof(Object<Step>), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, step_slots};

}  // namespace

void add_step_type(PyObject* module) { the_step_type = add_type(module, "Step", step_spec); }
PyTypeObject* step_type() { return the_step_type; }

}  // namespace stepfuse_python
