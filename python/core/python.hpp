// CPython's stable interface, with owned references and errors as exceptions. Knows nothing of
// stepfuse.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <cstdint>
#include <exception>
#include <new>
#include <utility>

namespace stepfuse_python {

// Thrown after a Python error has been set.
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

// An attribute of objects. For objects of the class that was asked last it skips the search.
class Attribute {
 public:
  explicit Attribute(const char* name) : name_(checked(PyUnicode_InternFromString(name))) {}

  // Null, without an error, if the object has no such attribute.
  Ref of(PyObject* object) const {
    PyTypeObject* type = Py_TYPE(object);
    if (reinterpret_cast<PyObject*>(type) != type_.get()) offset_ = 0;
    if (offset_ != 0) {
      Ref found = Ref::borrow(reinterpret_cast<PyObject**>(object)[offset_]);
      if (found.get() != nullptr) return found;
    }
    Ref found(PyObject_GetAttr(object, name_.get()));
    if (found.get() == nullptr) {
      PyErr_Clear();
    } else if (reinterpret_cast<PyObject*>(type) != type_.get()) {
      look_up(object, found.get());
    }
    return found;
  }

 private:
  // Objects of a class with `__slots__` store the attribute as a pointer, always at the same
  // offset. The offset is that of this object's pointer. A class may also define its own lookup.
  void look_up(PyObject* object, PyObject* found) const {
    PyTypeObject* type = Py_TYPE(object);
    type_ = Ref::borrow(reinterpret_cast<PyObject*>(type));
    Ref member(PyObject_GetAttr(type_.get(), name_.get()));
    Ref size(PyObject_GetAttrString(type_.get(), "__basicsize__"));
    Ref kind(member.get() == nullptr
                 ? nullptr
                 : PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(member.get())),
                                          "__name__"));
    if (kind.get() == nullptr || size.get() == nullptr) {
      PyErr_Clear();
      return;
    }
    auto usual = reinterpret_cast<void*>(PyObject_GenericGetAttr);
    if (PyUnicode_CompareWithASCIIString(kind.get(), "member_descriptor") != 0 ||
        PyType_GetSlot(type, Py_tp_getattro) != usual) {
      return;
    }
    size_t end = PyLong_AsSize_t(size.get()) / sizeof(void*);
    size_t count = 0;
    size_t place = 0;
    for (size_t i = sizeof(PyObject) / sizeof(void*); i < end; ++i) {
      if (reinterpret_cast<PyObject**>(object)[i] != found) continue;
      place = i;
      ++count;
    }
    if (count == 1) offset_ = place;
  }

  Ref name_;
  mutable Ref type_;           // of the last object
  mutable size_t offset_ = 0;  // in pointers, of that type's slot; 0 if it has none
};

inline Ref none() { return Ref::borrow(Py_None); }

// Runs `body`, which returns a Ref, and returns nullptr if it raised.
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
