// The C API's errors: every exception becomes a status and this thread's message. Knows the handles.
#include <cstdlib>
#include <new>
#include <stdexcept>

#include <fmt/format.h>

#include "ir/text/words.hpp"
#include "runtime/c_api/handles.hpp"

namespace stepfuse::c_api {
namespace {

struct LastError {
  std::string text;
  const char* message = "";  // points to `text`, or to a constant if there is no memory for a copy
  SourceLoc place;
};
thread_local LastError last;

stepfuse_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::parse:
      return STEPFUSE_ERROR_PARSE;
    case ErrorKind::verify:
      return STEPFUSE_ERROR_VERIFY;
    case ErrorKind::bind:
      return STEPFUSE_ERROR_BIND;
    case ErrorKind::compile:
      return STEPFUSE_ERROR_COMPILE;
    case ErrorKind::device:
      return STEPFUSE_ERROR_DEVICE;
    case ErrorKind::usage:
      return STEPFUSE_ERROR_USAGE;
  }
  return STEPFUSE_ERROR_INTERNAL;
}

stepfuse_status note(stepfuse_status status, const char* message, SourceLoc place = {}) noexcept {
  last.place = place;
  try {
    last.text = message;
    last.message = last.text.c_str();
  } catch (...) {
    last.message = "out of memory, even for an error message";
  }
  return status;
}

}  // namespace

stepfuse_status note_exception() noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return note(status_of(e.kind()), e.what(), e.loc());
  } catch (const std::length_error&) {
    return note(STEPFUSE_ERROR_USAGE, "a count is larger than any array");
  } catch (const std::bad_alloc&) {
    last.place = {};
    last.message = "out of memory";
    return STEPFUSE_ERROR_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    return note(STEPFUSE_ERROR_INTERNAL, e.what());
  } catch (...) {
    return note(STEPFUSE_ERROR_INTERNAL, "an exception that is not stepfuse's, from a callback?");
  }
}

void refuse_null(const char* what) {
  throw Error(ErrorKind::usage, fmt::format("{} is NULL", what));
}

void refuse_index(const char* what, size_t index, const char* has, size_t count) {
  throw Error(ErrorKind::usage,
              fmt::format("there is no {} {}: {} {}", what, index, has, index_words(count, what)));
}

void check_struct(const void* given, size_t given_size, size_t known, const char* name) {
  if (given_size < sizeof(size_t)) {
    throw Error(ErrorKind::usage,
                fmt::format("{} has struct_size 0: begin it with its initialiser, as in "
                            "`stepfuse_tensor tensor = STEPFUSE_TENSOR;`",
                            name));
  }
  // No version's struct is larger: such a size is uninitialised memory.
  constexpr size_t kLargest = 4096;
  if (given_size > kLargest) {
    throw Error(ErrorKind::usage,
                fmt::format("{} has struct_size {}, and none is larger than {}: begin it with its "
                            "initialiser, as in `stepfuse_tensor tensor = STEPFUSE_TENSOR;`",
                            name, given_size, kLargest));
  }
  const char* bytes = static_cast<const char*>(given);
  for (size_t i = known; i < given_size; ++i) {
    if (bytes[i] == 0) continue;
    throw Error(ErrorKind::usage,
                fmt::format("{} sets a field that stepfuse {} does not have: it was compiled "
                            "against a later version",
                            name, stepfuse_version()));
  }
}

char* copy_text(const std::string& text) {
  auto* out = static_cast<char*>(std::malloc(text.size() + 1));
  if (out == nullptr) throw std::bad_alloc();
  std::memcpy(out, text.c_str(), text.size() + 1);
  return out;
}

}  // namespace stepfuse::c_api

using namespace stepfuse::c_api;

const char* stepfuse_error_message(void) { return last.message; }

void stepfuse_error_place(int32_t* line, int32_t* column) {
  if (line != nullptr) *line = last.place.line;
  if (column != nullptr) *column = last.place.column;
}

const char* stepfuse_version(void) { return STEPFUSE_VERSION; }
std::string_view stepfuse::version() { return STEPFUSE_VERSION; }

void stepfuse_free(char* text) { std::free(text); }
