// The Python types of the C API's handles; knows stepfuse.h and CPython.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/stepfuse.h>

#include "python/core/python.hpp"

namespace stepfuse_python {

// stepfuse.Error; set by the module.
extern PyObject* error_type;

// Raises the library's own message.
inline void check(stepfuse_status status) {
  if (status == STEPFUSE_OK) return;
  PyErr_SetString(error_type, stepfuse_error_message());
  throw Raised();
}

// Returns what the library expects of an argument, from its message about a value: "a number >= 0". The rest of the
// message is in C++ terms.
std::string rule_of(std::string_view message);

template <auto destroy>
struct Destroy {
  template <class T>
  void operator()(T* handle) const {
    destroy(handle);
  }
};

struct Program {
  std::unique_ptr<stepfuse_program, Destroy<stepfuse_program_destroy>> handle;
};

struct Scaler {
  std::unique_ptr<stepfuse_scaler, Destroy<stepfuse_scaler_destroy>> handle;
};

// Releases Python's lock during compilation or a wait for a device. After Python has ended there is
// no lock.
class Unlocked {
 public:
  Unlocked() : state_(Py_IsInitialized() != 0 ? PyEval_SaveThread() : nullptr) {}
  ~Unlocked() {
    if (state_ != nullptr) PyEval_RestoreThread(state_);
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

template <class Call>
void check_unlocked(Call&& call) {
  stepfuse_status status = STEPFUSE_OK;
  {
    Unlocked unlocked;
    status = call();
  }
  check(status);
}

struct Step {
  Ref scaler;  // outlives the step, as does the allocator
  Ref allocator;
  std::unique_ptr<stepfuse_step, Destroy<stepfuse_step_destroy>> handle;
  std::unique_ptr<stepfuse_args, Destroy<stepfuse_args_destroy>> args;
  std::unique_ptr<stepfuse_stats, Destroy<stepfuse_stats_destroy>> stats;
  size_t tensors = 0;
  bool reads_block = false;  // runs read the arguments from the step's block on the device
  // The f32 counts that Python shows for a step on the CPU.
  Ref shown_counts;
  float* floats = nullptr;
  const int64_t* counts = nullptr;

  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  ~Step() {
    stats.reset();
    args.reset();
    Unlocked unlocked;  // the device may still be running
    handle.reset();
  }

  // For Python's garbage collector. The handle uses scaler and allocator, so they must outlive it.
  int visit(visitproc visit, void* arg) const {
    Py_VISIT(scaler.get());
    Py_VISIT(allocator.get());
    Py_VISIT(shown_counts.get());
    return 0;
  }
  void clear() {}

  bool counts_are_its_own() const {
    for (size_t i = 0; i < tensors; ++i) {
      if (floats[i] != static_cast<float>(counts[i])) return false;
    }
    return true;
  }
};

// Makes the types and adds them to the module.
void add_program_types(PyObject* module);
void add_step_type(PyObject* module);
void add_walk_type(PyObject* module);

PyTypeObject* program_type();
PyTypeObject* step_type();
PyTypeObject* scaler_type();
PyTypeObject* walk_type();

// A type from its slots, added under its name.
inline PyTypeObject* add_type(PyObject* module, const char* name, PyType_Spec& spec) {
  Ref type = checked(PyType_FromSpec(&spec));
  checked(PyModule_AddObjectRef(module, name, type.get()));
  return reinterpret_cast<PyTypeObject*>(type.release());
}

}  // namespace stepfuse_python
