// Calls of driver functions by their exported names. Knows nothing; which driver it is says the program
// that defines driver_symbol().
#pragma once

namespace stepfuse::testing {

void* driver_symbol(const char* name);

template <class... Args>
int call_driver(const char* name, Args... args) {
  return reinterpret_cast<int (*)(Args...)>(driver_symbol(name))(args...);
}

}  // namespace stepfuse::testing
