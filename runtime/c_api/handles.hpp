// The C API's handles, the conversion of its structs, and the single place where exceptions become
// statuses. Knows the public API.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <variant>

#include <stepfuse/granularity.hpp>
#include <stepfuse/monitor.hpp>
#include <stepfuse/stepfuse.h>
#include <stepfuse/stepfuse.hpp>

struct stepfuse_program {
  stepfuse::Program value;
};
struct stepfuse_layout {
  stepfuse::Layout value;
  mutable std::vector<stepfuse_storage> storage = {};  // the tensor that was read last
};
struct stepfuse_scaler {
  stepfuse::LossScaler value;
};
struct stepfuse_step {
  stepfuse::Step value;
  mutable std::string partial_name = {};  // the partial that was read last
};
struct stepfuse_args {
  // On the host, or a block on the device.
  std::variant<stepfuse::Args, stepfuse::DeviceArgs> value;
};
struct stepfuse_stats {
  stepfuse::StepStats value;
};
struct stepfuse_monitor {
  stepfuse::Monitor value;
};

namespace stepfuse::c_api {

// Keeps the exception being handled as this thread's message; returns its status.
stepfuse_status note_exception() noexcept;

template <class F>
stepfuse_status guard(F&& f) noexcept {
  try {
    f();
    return STEPFUSE_OK;
  } catch (...) {
    return note_exception();
  }
}

// For functions that return a size: 0 after an exception, which becomes this thread's message.
template <class F>
size_t size_or_zero(F&& f) noexcept {
  size_t size = 0;
  return guard([&] { size = f(); }) == STEPFUSE_OK ? size : 0;
}

[[noreturn]] void refuse_null(const char* what);
[[noreturn]] void refuse_index(const char* what, size_t index, const char* has, size_t count);

template <class T>
T& need(T* pointer, const char* what) {
  if (pointer == nullptr) refuse_null(what);
  return *pointer;
}

inline std::string_view text_of(const char* text, const char* what) { return &need(text, what); }
inline std::string text_or(const char* text, const char* otherwise) {
  return text != nullptr ? text : otherwise;
}

// Returns where the new handle goes, and sets it to null until there is one.
template <class T>
T*& result(T** place) {
  T*& r = need(place, "the place for the result");
  r = nullptr;
  return r;
}

// Returns the element with that index, or throws an error with the count: "the program declares" 5.
template <class T>
const T& declared(const std::vector<T>& all, size_t index, const char* what, const char* has) {
  if (index < all.size()) return all[index];
  refuse_index(what, index, has, all.size());
}

// --- structs whose first field is their size

// Throws if the struct sets a field that this version does not have.
void check_struct(const void* given, size_t given_size, size_t known, const char* name);

// Converts the caller's struct to this version's. Fields that an older struct does not have are 0.
template <class S>
S read_struct(const S* given, const char* name) {
  const S& from = need(given, name);
  check_struct(&from, from.struct_size, sizeof(S), name);
  S out{};
  std::memcpy(&out, &from, std::min(from.struct_size, sizeof(S)));
  return out;
}

// Writes the fields that the caller's struct has.
template <class S>
void write_struct(S* to, S value, const char* name) {
  S& out = need(to, name);
  size_t size = out.struct_size;
  if (size < sizeof size || size > sizeof(S)) check_struct(&out, size, size, name);
  value.struct_size = size;
  std::memcpy(&out, &value, std::min(size, sizeof(S)));
}

char* copy_text(const std::string& text);

inline std::span<void* const> pointers_of(void* const* pointers, size_t count) {
  if (count != 0) need(pointers, "the array of pointers");
  return {pointers, count};
}

inline const Step& step_of(const stepfuse_step* step) { return need(step, "the step").value; }
inline Step& step_of(stepfuse_step* step) { return need(step, "the step").value; }

TensorSpec tensor_of(const stepfuse_tensor* tensor);
DType dtype_of(stepfuse_dtype dtype);
stepfuse_granularity granularity_of(Granularity at);

}  // namespace stepfuse::c_api
