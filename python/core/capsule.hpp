// Capsules over numbers in a step's or scaler's memory, from which torch makes tensors. Knows
// CPython and DLPack.
#pragma once

#include <memory>
#include <optional>

#include "python/core/dlpack.hpp"
#include "python/core/python.hpp"

namespace stepfuse_python {

// The tensor keeps the memory's owner alive.
struct NumberTensor {
  dlpack::Managed managed{};
  Ref owner;
  int64_t count = 0;
};

inline void free_number(dlpack::Managed* managed) {
  if (Py_IsInitialized() == 0) return;  // the end of the process frees everything
  PyGILState_STATE gil = PyGILState_Ensure();
  delete static_cast<NumberTensor*>(managed->context);
  PyGILState_Release(gil);
}

inline void free_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // torch has taken it over
  auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

// A capsule of consecutive `numbers`, or of one number without dimensions.
inline Ref number_capsule(PyObject* owner, const void* at, int device_type, int device_id,
                          dlpack::Type type, std::optional<size_t> numbers = {}) {
  auto tensor = std::make_unique<NumberTensor>();
  tensor->owner = Ref::borrow(owner);
  tensor->count = static_cast<int64_t>(numbers.value_or(1));
  tensor->managed.tensor = {const_cast<void*>(at),
                            device_type,
                            device_id,
                            numbers ? 1 : 0,
                            type,
                            numbers ? &tensor->count : nullptr,
                            nullptr,
                            0};
  tensor->managed.context = tensor.get();
  tensor->managed.deleter = free_number;
  Ref capsule = checked(PyCapsule_New(&tensor->managed, "dltensor", free_capsule));
  tensor.release();
  return capsule;
}

}  // namespace stepfuse_python
