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
    Dl_info where{};
    if (found != nullptr && dladdr(found, &where) != 0) path_ = where.dli_fname;
    if (found == nullptr && required && problem_.empty()) problem_ = path_ + " has no " + name;
  }
  // Why the library could not be opened, or the first missing function; empty otherwise.
  const std::string& problem() const { return problem_; }
  // Path of the loaded file, known once a function was found.
  const std::string& path() const { return path_; }
  void close() {
    if (handle_ != nullptr) dlclose(handle_);
    handle_ = nullptr;
  }

 private:
  void* handle_;
  std::string path_;
  std::string problem_;
};

}  // namespace stepfuse
