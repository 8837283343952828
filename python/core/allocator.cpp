// Calls Python for memory. An exception is printed, and the allocation fails.
#include "python/core/allocator.hpp"

namespace stepfuse_python {
namespace {

class Locked {
 public:
  Locked() : state_(PyGILState_Ensure()) {}
  ~Locked() { PyGILState_Release(state_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  PyGILState_STATE state_;
};

PyObject* member(void* pair, Py_ssize_t index) {
  return PyTuple_GetItem(static_cast<PyObject*>(pair), index);
}

void* allocate(void* pair, size_t bytes, stepfuse_stream stream) {
  if (Py_IsInitialized() == 0) return nullptr;  // Python, which would allocate, has ended
  Locked lock;
  Ref address(PyObject_CallFunction(member(pair, 0), "KK", static_cast<unsigned long long>(bytes),
                                    reinterpret_cast<unsigned long long>(stream)));
  void* memory = address.get() == nullptr ? nullptr : PyLong_AsVoidPtr(address.get());
  if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(member(pair, 0));
  return memory;
}

void release(void* pair, void* memory, size_t, stepfuse_stream) {
  if (Py_IsInitialized() == 0) return;  // the end of the process frees everything
  Locked lock;
  Ref done(
      PyObject_CallFunction(member(pair, 1), "K", reinterpret_cast<unsigned long long>(memory)));
  if (done.get() == nullptr) PyErr_WriteUnraisable(member(pair, 1));
}

}  // namespace

void set_allocator(stepfuse_step_options* options, PyObject* pair) {
  if (PyTuple_Check(pair) == 0 || PyTuple_Size(pair) != 2 ||
      PyCallable_Check(member(pair, 0)) == 0 || PyCallable_Check(member(pair, 1)) == 0) {
    PyErr_SetString(PyExc_TypeError, "the allocator is None or (allocate, release)");
    throw Raised();
  }
  options->allocate = allocate;
  options->release = release;
  options->user = pair;
}

}  // namespace stepfuse_python
