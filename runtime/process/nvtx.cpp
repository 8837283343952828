// The application's side of NVTX's injection protocol, version 3. Knows the loader and the environment.
//
// The profiler's library exports InitializeInjectionNvtx2(get_export_table). It asks get_export_table for
// our tables by number. The table of callbacks gives it, per module, an array with the addresses of our
// function pointers, and the library stores its functions there. We only call the two functions of a range.
#include "runtime/process/nvtx.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "runtime/process/shared_library.hpp"

namespace stepfuse::nvtx {
namespace {

// These numbers are defined by the protocol.
constexpr uint32_t kCallbacksTable = 1;
constexpr uint32_t kVersionTable = 3;
constexpr int kCoreModule = 1;
constexpr int kLastModule = 6;
constexpr unsigned kPushA = 9;
constexpr unsigned kPop = 11;
constexpr unsigned kCoreFunctions = 16;  // number 0 is unused
constexpr uint32_t kVersion = 3;

using Function = void (*)();

// Slots for the modules that we do not call. The library may fill them as it likes.
constexpr size_t kSlots = 64;
std::array<Function, kSlots> g_core{}, g_unused{};
std::array<Function*, kSlots> g_core_table{}, g_unused_table{};

int module_table(int module, Function*** table, unsigned* size) {
  if (module < kCoreModule || module > kLastModule) return 0;
  bool core = module == kCoreModule;
  if (table != nullptr) *table = core ? g_core_table.data() : g_unused_table.data();
  if (size != nullptr) *size = core ? kCoreFunctions : static_cast<unsigned>(kSlots);
  return 1;
}

struct Callbacks {
  size_t size = sizeof(Callbacks);
  int (*module_table)(int module, Function*** table, unsigned* size) = &nvtx::module_table;
};

void take_version(uint32_t) {}

struct VersionInfo {
  size_t size = sizeof(VersionInfo);
  uint32_t version = kVersion;
  uint32_t reserved = 0;
  void (*set_injection_version)(uint32_t) = &take_version;
};

const void* export_table(uint32_t number) {
  static const Callbacks callbacks;
  static const VersionInfo version;
  if (number == kCallbacksTable) return &callbacks;
  return number == kVersionTable ? static_cast<const void*>(&version) : nullptr;
}

Functions ask_profiler() {
  const char* path = ::secure_getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr || *path == '\0') return {};
  for (size_t i = 1; i < kSlots; ++i) {
    if (i < kCoreFunctions) g_core_table[i] = &g_core[i];
    g_unused_table[i] = &g_unused[i];
  }
  // A profiler that does not work must not stop training.
  int (*initialize)(const void* (*)(uint32_t)) = nullptr;
  SharedLibrary(path).find(initialize, "InitializeInjectionNvtx2");
  if (initialize == nullptr || initialize(&export_table) == 0) return {};
  Functions f{reinterpret_cast<PushFunction>(g_core[kPushA]),
              reinterpret_cast<PopFunction>(g_core[kPop])};
  return f.push != nullptr && f.pop != nullptr ? f : Functions{};
}

}  // namespace

const Functions& functions() {
  static const Functions instance = ask_profiler();
  return instance;
}

}  // namespace stepfuse::nvtx
