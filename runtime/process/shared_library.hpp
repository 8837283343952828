// Opens a library and finds its functions. Knows the dynamic loader.
#pragma once

#include <dlfcn.h>
#include <string>

namespace stepfuse {

// The library stays open when this object ends, because its functions are in use, unless close() is called.
class SharedLibrary {
 public:
  // Functions are resolved when they are first called, because libLLVM has thousands.
  explicit SharedLibrary(const std::string& file)
      : handle_(dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL)), path_(file) {
    if (handle_ == nullptr) problem_ = dlerror();
  }
  explicit operator bool() const { return handle_ != nullptr; }
  // Looks up a function; null if there is none. A missing function that is required is a problem().
  template <class Result, class... Parameters>
  void find(Result (*&function)(Parameters...), const char* name, bool required = true) {
    void* found = handle_ != nullptr ? dlsym(handle_, name) : nullptr;
    function = reinterpret_cast<Result (*)(Parameters...)>(found);
    if (found != nullptr) inside_ = found;
    if (found == nullptr && required && problem_.empty()) problem_ = path() + " has no " + name;
  }
  // Why the library could not be opened, or the first missing function; empty otherwise.
  const std::string& problem() const { return problem_; }
  // Path of the loaded file once a function was found; before that, the name it was opened by. Call it once: the loader
  // reads the library's whole symbol table to answer.
  std::string path() const {
    Dl_info where{};
    return inside_ != nullptr && dladdr(inside_, &where) != 0 ? where.dli_fname : path_;
  }
  void close() {
    if (handle_ != nullptr) dlclose(handle_);
    handle_ = nullptr;
  }

 private:
  void* handle_;
  std::string path_;
  std::string problem_;
  void* inside_ = nullptr;  // a function of the library
};

}  // namespace stepfuse
