// CPython's stable interface with owners for references and errors as exceptions; knows nothing of
// stepfuse.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cstdint>
#include <exception>
#include <new>
#include <utility>

namespace stepfuse_python {

// Thrown where a Python error is set already.
struct Raised {};

// Owns one reference.
class Ref {
 public:
  Ref() = default;
  explicit Ref(PyObject* owned) : object_(owned) {}
  static Ref borrow(PyObject* object) {
    Py_XINCREF(object);
    return Ref(object);
  }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  Ref(const Ref&) = delete;
  Ref& operator=(const Ref&) = delete;
  ~Ref() { Py_XDECREF(object_); }

  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_ = nullptr;
};

inline Ref checked(PyObject* owned) {
  if (owned == nullptr) throw Raised();
  return Ref(owned);
}
inline void checked(int status) {
  if (status < 0) throw Raised();
}

inline Ref none() { return Ref::borrow(Py_None); }

// Runs `body`, which returns a Ref; nullptr where it raised.
template <class Body>
PyObject* guarded(Body&& body) {
  try {
    return body().release();
  } catch (const Raised&) {
    return nullptr;
  } catch (const std::bad_alloc&) {
    return PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    return nullptr;
  }
}

// The items of a list or tuple, borrowed from it.
template <class Each>
void for_each(PyObject* sequence, Each&& each) {
  Py_ssize_t count = PySequence_Size(sequence);
  if (count < 0) throw Raised();
  for (Py_ssize_t i = 0; i < count; ++i) each(checked(PySequence_GetItem(sequence, i)).get());
}

inline void* to_address(PyObject* number) {
  unsigned long long value = PyLong_AsUnsignedLongLong(number);
  if (PyErr_Occurred() != nullptr) throw Raised();
  return reinterpret_cast<void*>(static_cast<uintptr_t>(value));
}
inline const char* to_text(PyObject* text) {
  const char* chars = PyUnicode_AsUTF8AndSize(text, nullptr);
  if (chars == nullptr) throw Raised();
  return chars;
}

// A Python type over a C++ object that a factory makes.
template <class T>
struct Object {
  PyObject_HEAD T* value;
};

template <class T>
T& self_of(PyObject* self) {
  return *reinterpret_cast<Object<T>*>(self)->value;
}

// T takes part in garbage collection if it has visit() and clear().
template <class T>
concept Collected = requires(T value, visitproc visit, void* arg) {
  value.visit(visit, arg);
  value.clear();
};

template <Collected T>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const T* value = reinterpret_cast<Object<T>*>(self)->value;
  return value == nullptr ? 0 : value->visit(visit, arg);
}

template <Collected T>
int clear(PyObject* self) {
  T* value = reinterpret_cast<Object<T>*>(self)->value;
  if (value != nullptr) value->clear();
  return 0;
}

template <class T>
void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if constexpr (Collected<T>) PyObject_GC_UnTrack(self);
  delete reinterpret_cast<Object<T>*>(self)->value;
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

// The new instance owns `value`.
template <class T>
PyObject* instance(PyTypeObject* type, T* value) {
  auto allocate = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  PyObject* self = allocate(type, 0);
  if (self == nullptr) {
    delete value;
    throw Raised();
  }
  reinterpret_cast<Object<T>*>(self)->value = value;
  return self;
}

}  // namespace stepfuse_python
