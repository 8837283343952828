// Finds functions of libraries that the process has already loaded, and loads none itself.
#include "python/core/libtorch.hpp"

#include <dlfcn.h>

namespace stepfuse_python {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

bool Libtorch::open() {
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return false;
  int32_t (*layout_strided)() = nullptr;
  bool found = find(library, "aoti_torch_get_data_ptr", data_ptr) &&
               find(library, "aoti_torch_get_dtype", dtype) &&
               find(library, "aoti_torch_get_layout", layout) &&
               find(library, "aoti_torch_layout_strided", layout_strided) &&
               find(library, "aoti_torch_get_device_type", device_type) &&
               find(library, "aoti_torch_get_device_index", device_index) &&
               find(library, "aoti_torch_get_dim", dimensions) &&
               find(library, "aoti_torch_get_sizes", sizes) &&
               find(library, "aoti_torch_get_strides", strides);
  find(library, "_ZNK2at10TensorBase8_versionEv", version);
  find(library, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", bump_version);
  if (found) strided = layout_strided();
  return found;
}

}  // namespace stepfuse_python
