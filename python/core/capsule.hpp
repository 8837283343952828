// One number in a step's or scaler's memory, as a capsule that torch makes a tensor of. Knows CPython and DLPack.
#pragma once

#include <memory>

#include "python/core/dlpack.hpp"
#include "python/core/python.hpp"

namespace stepfuse_python {

// The tensor keeps whose memory it is alive.
struct NumberTensor {
  dlpack::Managed managed{};
  Ref owner;
};

inline void free_number(dlpack::Managed* managed) {
  PyGILState_STATE gil = PyGILState_Ensure();
  delete static_cast<NumberTensor*>(managed->context);
  PyGILState_Release(gil);
}

inline void free_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor") == 0) return;  // taken over
  auto* managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule, "dltensor"));
  managed->deleter(managed);
}

inline Ref number_capsule(PyObject* owner, void* number, int device_type, int device_id,
                          dlpack::Type type) {
  auto tensor = std::make_unique<NumberTensor>();
  tensor->owner = Ref::borrow(owner);
  tensor->managed.tensor = {number, device_type, device_id, 0, type, nullptr, nullptr, 0};
  tensor->managed.context = tensor.get();
  tensor->managed.deleter = free_number;
  Ref capsule = checked(PyCapsule_New(&tensor->managed, "dltensor", free_capsule));
  tensor.release();
  return capsule;
}

}  // namespace stepfuse_python
