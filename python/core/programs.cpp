// Program and Scaler: a recipe's declarations, and the loss scale that steps share.
#include <bit>
#include <string>
#include <string_view>

#include "python/core/capsule.hpp"
#include "python/core/objects.hpp"

namespace stepfuse_python {

PyObject* error_type = nullptr;

namespace {

PyTypeObject* the_program_type = nullptr;
PyTypeObject* the_scaler_type = nullptr;

PyObject* program_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&] {
    const char* name = nullptr;
    PyObject* options = nullptr;
    if (PyArg_ParseTuple(args, "sO:Program", &name, &options) == 0) throw Raised();
    std::vector<std::string> texts;
    for_each(options, [&](PyObject* option) { texts.emplace_back(to_text(option)); });
    std::vector<const char*> pointers;
    pointers.reserve(texts.size());
    for (const std::string& text : texts) pointers.push_back(text.c_str());
    stepfuse_program* program = nullptr;
    bool is_formula = std::string_view(name).find('{') != std::string_view::npos;
    check_unlocked([&] {
      return is_formula
                 ? stepfuse_formula(name, nullptr, pointers.data(), pointers.size(), &program)
                 : stepfuse_recipe(name, pointers.data(), pointers.size(), &program);
    });
    auto value = std::make_unique<Program>();
    value->handle.reset(program);
    return Ref(instance(type, value.release()));
  });
}

// Takes over a text that the library allocated.
Ref taken(char* text) {
  Ref result(PyUnicode_FromString(text));
  stepfuse_free(text);
  return checked(result.release());
}

PyObject* program_text(PyObject* self, PyObject*) {
  return guarded([&] {
    char* text = nullptr;
    check(stepfuse_program_print(self_of<Program>(self).handle.get(), &text));
    return taken(text);
  });
}

// Declarations of a program, in order: a dict from each name to the result of `item(index, name)`.
template <class Item>
PyObject* declarations(size_t count, Item&& item) {
  return guarded([&] {
    Ref all = checked(PyDict_New());
    for (size_t i = 0; i < count; ++i) {
      const char* name = nullptr;
      Ref value = checked(item(i, name));
      checked(PyDict_SetItemString(all.get(), name, value.get()));
    }
    return all;
  });
}

PyObject* program_buffers(PyObject* self, PyObject*) {
  const stepfuse_program* program = self_of<Program>(self).handle.get();
  return declarations(stepfuse_program_buffer_count(program), [&](size_t i, const char*& name) {
    stepfuse_buffer buffer = STEPFUSE_BUFFER;
    check(stepfuse_program_buffer(program, i, &buffer));
    name = buffer.name;
    bool one = std::has_single_bit(buffer.dtypes);
    return Py_BuildValue("(isiiKKi)", buffer.init_from,
                         one ? stepfuse_dtype_name(std::countr_zero(buffer.dtypes)) : "",
                         buffer.block, buffer.is_written != 0 && buffer.initialised == 0,
                         static_cast<unsigned long long>(buffer.from),
                         static_cast<unsigned long long>(buffer.below), buffer.rows);
  });
}

PyObject* program_states(PyObject* self, PyObject*) {
  const stepfuse_program* program = self_of<Program>(self).handle.get();
  return declarations(stepfuse_program_state_count(program), [&](size_t i, const char*& name) {
    stepfuse_state state = STEPFUSE_STATE;
    check(stepfuse_program_state(program, i, &state));
    name = state.name;
    return Py_BuildValue("(siiL)", stepfuse_dtype_name(state.dtype), state.granularity,
                         state.is_shared != 0 || state.is_report != 0,
                         static_cast<long long>(state.initial));
  });
}

PyObject* program_args(PyObject* self, PyObject*) {
  const stepfuse_program* program = self_of<Program>(self).handle.get();
  return declarations(stepfuse_program_arg_count(program), [&](size_t i, const char*& name) {
    stepfuse_arg arg = STEPFUSE_ARG;
    check(stepfuse_program_arg(program, i, &arg));
    name = arg.name;
    return arg.has_default != 0 ? PyFloat_FromDouble(arg.default_value) : none().release();
  });
}

// Returns the rule that a value breaks, as it follows "expected", or None.
PyObject* program_rule_for(PyObject* self, PyObject* args) {
  return guarded([&] {
    Py_ssize_t index = 0;
    double value = 0;
    if (PyArg_ParseTuple(args, "nd:rule_for", &index, &value) == 0) throw Raised();
    const stepfuse_program* program = self_of<Program>(self).handle.get();
    if (stepfuse_program_check_arg(program, static_cast<size_t>(index), value) == STEPFUSE_OK) {
      return none();
    }
    return checked(PyUnicode_FromString(rule_of(stepfuse_error_message()).c_str()));
  });
}

PyMethodDef program_methods[] = {
    {"text", program_text, METH_NOARGS, "Returns the step's text, in the language."},
    {"buffers", program_buffers, METH_NOARGS,
     "Returns for each buffer: the index of the buffer that it starts as a copy of, or -1; its "
     "storage type, or '' if there are several; the number of elements of a row that share a "
     "value; whether it is only an output; the least number of elements of a tensor that has it; "
     "the least number from which tensors lack it again; and the number of rows that share a "
     "value."},
    {"states", program_states, METH_NOARGS,
     "Returns for each state: its type, its granularity (0: per step, 1: per group, 2: per "
     "tensor), whether it is a report or shared, and the bits of its first value."},
    {"args", program_args, METH_NOARGS,
     "Returns the default of each argument, or None, in the order of their indices."},
    {"rule_for", program_rule_for, METH_VARARGS,
     "rule_for(index, value): returns the rule that a value breaks as that argument, or None."},
    {}};
PyType_Slot program_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(program_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate<Program>)},
    {Py_tp_methods, program_methods},
    {Py_tp_doc,
     const_cast<char*>(
         "Program(recipe, options): the step of a recipe's name, or of an optimizer's formula.")},
    {}};
PyType_Spec program_spec = {"stepfuse._core.Program", sizeof(Object<Program>), 0,
                            Py_TPFLAGS_DEFAULT, program_slots};

PyObject* scaler_new(PyTypeObject* type, PyObject* args, PyObject*) {
  return guarded([&] {
    stepfuse_scaler_options options = STEPFUSE_SCALER_OPTIONS;
    if (PyArg_ParseTuple(args, "dddi:Scaler", &options.init_scale, &options.growth_factor,
                         &options.backoff_factor, &options.growth_interval) == 0) {
      throw Raised();
    }
    stepfuse_scaler* scaler = nullptr;
    check(stepfuse_scaler_create(&options, &scaler));
    auto value = std::make_unique<Scaler>();
    value->handle.reset(scaler);
    return Ref(instance(type, value.release()));
  });
}

PyObject* scaler_read(PyObject* self, PyObject* name) {
  return guarded([&] {
    double value = 0;
    const char* text = to_text(name);
    check_unlocked(
        [&] { return stepfuse_scaler_read(self_of<Scaler>(self).handle.get(), text, &value); });
    return checked(PyFloat_FromDouble(value));
  });
}

PyObject* scaler_write(PyObject* self, PyObject* args) {
  return guarded([&] {
    const char* name = nullptr;
    double value = 0;
    if (PyArg_ParseTuple(args, "sd:write", &name, &value) == 0) throw Raised();
    check_unlocked(
        [&] { return stepfuse_scaler_write(self_of<Scaler>(self).handle.get(), name, value); });
    return none();
  });
}

PyObject* scaler_tensor(PyObject* self, PyObject* args) {
  return guarded([&] {
    int device_type = 0;
    int device_id = 0;
    if (PyArg_ParseTuple(args, "ii:tensor", &device_type, &device_id) == 0) throw Raised();
    const float* scale = nullptr;
    check(stepfuse_scaler_device_scale(self_of<Scaler>(self).handle.get(), &scale));
    return number_capsule(self, scale, device_type, device_id, dlpack::kF32);
  });
}

PyObject* recipes(PyObject*, PyObject*) {
  return guarded([&] {
    Ref all = checked(PyDict_New());
    for (size_t i = 0; const char* name = stepfuse_recipe_name(i); ++i) {
      Ref help = checked(PyUnicode_FromString(stepfuse_recipe_help(i)));
      checked(PyDict_SetItemString(all.get(), name, help.get()));
    }
    return all;
  });
}

PyObject* conversion(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* from = nullptr;
    const char* to = nullptr;
    if (PyArg_ParseTuple(args, "ss:conversion", &from, &to) == 0) throw Raised();
    stepfuse_program* program = nullptr;
    check(stepfuse_conversion(from, to, &program));
    auto value = std::make_unique<Program>();
    value->handle.reset(program);
    return Ref(instance(the_program_type, value.release()));
  });
}

PyObject* convert_checkpoint(PyObject*, PyObject* args) {
  return guarded([&] {
    const char* from = nullptr;
    const char* to = nullptr;
    const char* moments = nullptr;
    if (PyArg_ParseTuple(args, "sss:convert_checkpoint", &from, &to, &moments) == 0) throw Raised();
    check_unlocked([&] { return stepfuse_convert_checkpoint(from, to, moments, 0); });
    return none();
  });
}

PyObject* formula_text(PyObject*, PyObject* recipe) {
  return guarded([&] {
    char* text = nullptr;
    check(stepfuse_formula_text(to_text(recipe), &text));
    return taken(text);
  });
}

PyObject* formula_options(PyObject*, PyObject* text) {
  return guarded([&] {
    char* names = nullptr;
    check(stepfuse_formula_options(to_text(text), nullptr, &names));
    return taken(names);
  });
}

PyMethodDef functions[] = {
    {"recipes", recipes, METH_NOARGS,
     "Returns a dict from the names of the built-in recipes to their descriptions."},
    {"conversion", conversion, METH_VARARGS,
     "conversion(from, to): returns the step that converts @from, in one form, to @to, in a "
     "different one."},
    {"convert_checkpoint", convert_checkpoint, METH_VARARGS,
     "convert_checkpoint(from, to, moments): writes a checkpoint with its moments in a different "
     "form."},
    {"formula_text", formula_text, METH_O, "Returns the formula of a built-in optimizer."},
    {"formula_options", formula_options, METH_O,
     "Returns the options that a formula declares, one per line."},
    {}};

PyMethodDef scaler_methods[] = {
    {"read", scaler_read, METH_O, "read(name): returns a state; waits for the device."},
    {"write", scaler_write, METH_VARARGS, "write(name, value): sets a state."},
    {"tensor", scaler_tensor, METH_VARARGS,
     "tensor(DLPack's device type, device): returns the scale on its device as a DLPack capsule, "
     "once a step is made with the scaler."},
    {}};
PyType_Slot scaler_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(scaler_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate<Scaler>)},
    {Py_tp_methods, scaler_methods},
    {Py_tp_doc,
     const_cast<char*>("Scaler(init_scale, growth_factor, backoff_factor, growth_interval)")},
    {}};
PyType_Spec scaler_spec = {"stepfuse._core.Scaler", sizeof(Object<Scaler>), 0, Py_TPFLAGS_DEFAULT,
                           scaler_slots};

}  // namespace

void add_program_types(PyObject* module) {
  the_program_type = add_type(module, "Program", program_spec);
  the_scaler_type = add_type(module, "Scaler", scaler_spec);
  if (PyModule_AddFunctions(module, functions) != 0) throw Raised();
}
PyTypeObject* program_type() { return the_program_type; }
PyTypeObject* scaler_type() { return the_scaler_type; }

}  // namespace stepfuse_python
