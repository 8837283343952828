// Modules, libraries, functions, occupancy, launches.
#include <cstring>

#include "tools/ptx_machine/fake_driver/driver.hpp"

using namespace ptx::fake;

namespace {

// Hands the text of a failed load to the buffers that the options name.
void give_log(const std::string& log, unsigned count, const int* options, void** values) {
  char* buffer = nullptr;
  std::size_t size = 0;
  for (unsigned k = 0; k < count; ++k) {
    if (options[k] == kJitErrorLog) buffer = static_cast<char*>(values[k]);
    if (options[k] == kJitErrorLogSize) size = reinterpret_cast<std::uintptr_t>(values[k]);
  }
  if (buffer == nullptr || size == 0) return;
  std::size_t length = std::min(size - 1, log.size());
  std::memcpy(buffer, log.data(), length);
  buffer[length] = '\0';
}

Result load(Driver& driver, Library** library, const void* image, unsigned count,
            const int* options, void** values) {
  if (image == nullptr) return kInvalidValue;
  if (driver.streams->any_capture()) {
    driver.streams->invalidate_captures();
    return kCaptureUnsupported;
  }
  std::string log;
  Result result = driver.load(image, &log, library);
  give_log(log, count, options, values);
  return result;
}

Result function_of(Driver& driver, Function** function, void* handle, const char* name) {
  Library* library = driver.find_library(handle);
  if (library == nullptr) return kInvalidHandle;
  *function = driver.function(library, name);
  return *function == nullptr ? kNotFound : kSuccess;
}

Result attribute_of(Driver& driver, int* value, int attribute, void* handle) {
  const Function* function = driver.find_function(handle);
  if (function == nullptr) return kInvalidHandle;
  const auto& kernel = *function->kernel;
  switch (attribute) {
    case 0:
      *value = static_cast<int>(kernel.max_threads);
      break;
    case 1:
      *value = static_cast<int>(kernel.static_shared_bytes);
      break;
    case 2:
      *value = 0;
      break;
    case 3:
      *value = static_cast<int>(kernel.local_bytes);
      break;
    case 4:
      *value = 64;
      break;  // nobody has allocated registers
    case 5:
    case 6:
      *value = driver.settings.major * 10 + driver.settings.minor;
      break;
    case 8:
      *value = function->dynamic_shared_limit;
      break;
    default:
      *value = 0;
      break;
  }
  return kSuccess;
}

Result set_attribute(Driver& driver, void* handle, int attribute, int value) {
  Function* function = driver.find_function(handle);
  if (function == nullptr) return kInvalidHandle;
  if (attribute == 8) {
    if (value < 0 || value > 227 * 1024) return kInvalidValue;
    function->dynamic_shared_limit = value;
  }
  return kSuccess;
}

Result launch(Driver& driver, void* handle, const LaunchConfig& config, void** params,
              void** extra) {
  Function* function = driver.find_function(handle);
  Stream* stream = driver.streams->find(config.stream);
  if (function == nullptr || stream == nullptr) return kInvalidHandle;
  const Context* home = function->library->context;
  if (home != nullptr && home != driver.current()) return kInvalidContext;
  if (!function->loaded && stream->capture != nullptr) {
    driver.streams->invalidate_captures();
    return kCaptureUnsupported;
  }
  function->loaded = true;
  bool cooperative = false;
  for (unsigned k = 0; k < config.attribute_count; ++k) {
    const LaunchAttribute& a = config.attributes[k];
    if (a.id == kAttributeCooperative) cooperative = a.value.number != 0;
    if (a.id == kAttributeClusterDimension &&
        a.value.dimensions[0] * a.value.dimensions[1] * a.value.dimensions[2] != 1) {
      return kNotSupported;
    }
  }
  ptx::LaunchShape shape{.grid = {config.grid[0], config.grid[1], config.grid[2]},
                         .block = {config.block[0], config.block[1], config.block[2]},
                         .dynamic_shared_bytes = config.shared_bytes};
  return driver.launch(function, shape, cooperative, *stream, params, extra);
}

}  // namespace

STEPFUSE_FAKE_API cuModuleLoadDataEx(Library** module, const void* image, unsigned count,
                                     const int* options, void** values) {
  STEPFUSE_FAKE_CALL(context);
  Result result = load(driver, module, image, count, options, values);
  if (result == kSuccess) (*module)->context = driver.current();
  return result;
}

STEPFUSE_FAKE_API cuModuleLoadData(Library** module, const void* image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

STEPFUSE_FAKE_API cuModuleUnload(Library* module) {
  STEPFUSE_FAKE_CALL(context);
  return driver.unload(module) ? kSuccess : kInvalidHandle;
}

STEPFUSE_FAKE_API cuModuleGetFunction(Function** function, Library* module, const char* name) {
  STEPFUSE_FAKE_CALL(context);
  return function_of(driver, function, module, name);
}

STEPFUSE_FAKE_API cuModuleGetGlobal_v2(DevicePointer* address, std::size_t* bytes, Library* module,
                                       const char* name) {
  STEPFUSE_FAKE_CALL(context);
  if (driver.find_library(module) == nullptr) return kInvalidHandle;
  ptx::u64 size = 0;
  DevicePointer found = module->module->global(name, &size);
  if (found == 0) return kNotFound;
  if (address != nullptr) *address = found;
  if (bytes != nullptr) *bytes = size;
  return kSuccess;
}

STEPFUSE_FAKE_API cuLibraryLoadData(Library** library, const void* image, const int* jit_options,
                                    void** jit_values, unsigned jit_count, const int*, void**,
                                    unsigned) {
  STEPFUSE_FAKE_CALL(initialised);
  return load(driver, library, image, jit_count, jit_options, jit_values);
}

STEPFUSE_FAKE_API cuLibraryUnload(Library* library) {
  STEPFUSE_FAKE_CALL(initialised);
  return driver.unload(library) ? kSuccess : kInvalidHandle;
}

STEPFUSE_FAKE_API cuLibraryGetKernel(Function** kernel, Library* library, const char* name) {
  STEPFUSE_FAKE_CALL(initialised);
  return function_of(driver, kernel, library, name);
}

STEPFUSE_FAKE_API cuLibraryGetModule(Library** module, Library* library) {
  STEPFUSE_FAKE_CALL(context);
  *module = driver.find_library(library);
  return *module == nullptr ? kInvalidHandle : kSuccess;
}

STEPFUSE_FAKE_API cuKernelGetFunction(Function** function, Function* kernel) {
  STEPFUSE_FAKE_CALL(context);
  *function = driver.find_function(kernel);
  return *function == nullptr ? kInvalidHandle : kSuccess;
}

STEPFUSE_FAKE_API cuFuncGetAttribute(int* value, int attribute, void* function) {
  STEPFUSE_FAKE_CALL(context);
  return attribute_of(driver, value, attribute, function);
}
STEPFUSE_FAKE_API cuKernelGetAttribute(int* value, int attribute, void* kernel, Device) {
  STEPFUSE_FAKE_CALL(initialised);
  return attribute_of(driver, value, attribute, kernel);
}
STEPFUSE_FAKE_API cuFuncSetAttribute(void* function, int attribute, int value) {
  STEPFUSE_FAKE_CALL(context);
  return set_attribute(driver, function, attribute, value);
}
STEPFUSE_FAKE_API cuKernelSetAttribute(int attribute, int value, void* kernel, Device) {
  STEPFUSE_FAKE_CALL(initialised);
  return set_attribute(driver, kernel, attribute, value);
}
STEPFUSE_FAKE_API cuFuncLoad(void* function) {
  STEPFUSE_FAKE_CALL(context);
  Function* found = driver.find_function(function);
  if (found == nullptr) return kInvalidHandle;
  found->loaded = true;
  return kSuccess;
}

STEPFUSE_FAKE_API cuFuncGetParamInfo(void* handle, std::size_t index, std::size_t* offset,
                                     std::size_t* bytes) {
  STEPFUSE_FAKE_CALL(context);
  const Function* function = driver.find_function(handle);
  if (function == nullptr) return kInvalidHandle;
  if (index >= function->kernel->params.size()) return kInvalidValue;
  if (offset != nullptr) *offset = function->kernel->params[index].offset;
  if (bytes != nullptr) *bytes = function->kernel->params[index].bytes;
  return kSuccess;
}

STEPFUSE_FAKE_API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* handle,
                                                              int threads, std::size_t shared) {
  STEPFUSE_FAKE_CALL(context);
  const Function* function = driver.find_function(handle);
  if (function == nullptr) return kInvalidHandle;
  *blocks = driver.blocks_per_multiprocessor(*function, threads, shared);
  return kSuccess;
}

STEPFUSE_FAKE_API cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, void* handle,
                                                                       int threads,
                                                                       std::size_t shared,
                                                                       unsigned) {
  STEPFUSE_FAKE_CALL(context);
  const Function* function = driver.find_function(handle);
  if (function == nullptr) return kInvalidHandle;
  *blocks = driver.blocks_per_multiprocessor(*function, threads, shared);
  return kSuccess;
}

STEPFUSE_FAKE_API cuLaunchKernelEx(const LaunchConfig* config, void* function, void** params,
                                   void** extra) {
  STEPFUSE_FAKE_CALL(context);
  return config == nullptr ? kInvalidValue : launch(driver, function, *config, params, extra);
}

STEPFUSE_FAKE_API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                 unsigned by, unsigned bz, unsigned shared, void* stream,
                                 void** params, void** extra) {
  STEPFUSE_FAKE_CALL(context);
  LaunchConfig config{{gx, gy, gz}, {bx, by, bz}, shared, stream, nullptr, 0};
  return launch(driver, function, config, params, extra);
}

STEPFUSE_FAKE_API cuLaunchCooperativeKernel(void* function, unsigned gx, unsigned gy, unsigned gz,
                                            unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                            void* stream, void** params) {
  STEPFUSE_FAKE_CALL(context);
  LaunchAttribute cooperative{.id = kAttributeCooperative, .padding = {}, .value = {.number = 1}};
  LaunchConfig config{{gx, gy, gz}, {bx, by, bz}, shared, stream, &cooperative, 1};
  return launch(driver, function, config, params, nullptr);
}
