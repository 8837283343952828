// Start-up, contexts, code, and the bookkeeping of every call.
#include "tools/ptx_machine/fake_driver/driver.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

namespace ptx::fake {
namespace {

template <class T>
void read(const char* name, T& value) {
  if (const char* text = std::getenv(name)) value = static_cast<T>(std::strtoull(text, nullptr, 0));
}

}  // namespace

Settings Settings::from_environment() {
  Settings s;
  read("STEPFUSE_FAKE_DEVICES", s.devices);
  read("STEPFUSE_FAKE_SMS", s.multiprocessors);
  read("STEPFUSE_FAKE_BLOCKS_PER_SM", s.blocks_per_multiprocessor);
  read("STEPFUSE_FAKE_DRIVER_VERSION", s.driver_version);
  read("STEPFUSE_FAKE_COOPERATIVE", s.cooperative);
  read("STEPFUSE_FAKE_MEMORY_POOLS", s.memory_pools);
  read("STEPFUSE_FAKE_PAGEABLE", s.pageable);
  read("STEPFUSE_FAKE_TRACE", s.trace);
  read("STEPFUSE_FAKE_LAZY", s.lazy);
  read("STEPFUSE_FAKE_SEED", s.seed);
  read("STEPFUSE_FAKE_MEMORY", s.memory_bytes);
  read("STEPFUSE_FAKE_STEP_LIMIT", s.step_limit);
  read("STEPFUSE_FAKE_CHECK_RACES", s.checks.races);
  read("STEPFUSE_FAKE_CHECK_UNINITIALISED", s.checks.uninitialised);
  if (const char* text = std::getenv("STEPFUSE_FAKE_CC")) {  // "9.0"
    char* end = nullptr;
    s.major = static_cast<int>(std::strtol(text, &end, 10));
    s.minor = *end == '.' ? static_cast<int>(std::strtol(end + 1, nullptr, 10)) : 0;
  }
  if (const char* text = std::getenv("STEPFUSE_FAKE_FAULTS")) s.faults = text;
  return s;
}

Driver& Driver::get() {
  static Driver* driver = new Driver;  // never destroyed: a late call must still find it
  return *driver;
}

Driver::Driver() { reset(); }

void Driver::reset() {
  settings = Settings::from_environment();
  faults = {};
  faults.parse(settings.faults);
  functions_.clear();
  libraries_.clear();
  owners_.clear();
  graph_execs.clear();
  graphs.clear();
  for (const auto& [address, block] : host_blocks) {
    if (!block.registered) std::free(reinterpret_cast<void*>(address));
  }
  host_blocks.clear();
  streams = std::make_unique<Streams>();
  streams->lazy = settings.lazy;
  machine = std::make_unique<ptx::Machine>();
  if (settings.pageable) machine->memory().map_process();
  primaries_.clear();
  for (int d = 0; d < settings.devices; ++d) {
    primaries_.push_back(std::make_unique<Context>(Context{.device = d, .id = next_context_++}));
  }
  stack().clear();
  error.clear();
  instructions = launches = blocks = 0;
  seed = settings.seed;
  initialised_ = false;
}

Result Driver::initialise() {
  if (settings.devices == 0) return kNoDevice;
  initialised_ = true;
  return kSuccess;
}

Context* Driver::primary(Device device) {
  bool known = device >= 0 && device < static_cast<int>(primaries_.size());
  return known ? primaries_[static_cast<std::size_t>(device)].get() : nullptr;
}

bool Driver::is_context(const Context* context) const {
  for (const auto& p : primaries_) {
    if (p.get() == context) return true;
  }
  return false;
}

void Driver::reset_context(Context& context) {
  std::vector<Library*> gone;
  for (const auto& l : libraries_) {
    if (l->context == &context) gone.push_back(l.get());
  }
  for (Library* l : gone) unload(l);
  context.id = next_context_++;
}

std::vector<Context*>& Driver::stack() {
  thread_local std::vector<Context*> contexts;
  return contexts;
}

Result Driver::load(const void* image, std::string* log, Library** library) {
  const char* text = static_cast<const char*>(image);
  static constexpr unsigned char kFatBinary[] = {0x50, 0xED, 0x55, 0xBA};
  if (std::memcmp(text,
                  "\x7F"
                  "ELF",
                  4) == 0 ||
      std::memcmp(text, kFatBinary, 4) == 0) {
    *log = "the fake driver executes PTX text, not a cubin";
    return kNoBinaryForGpu;
  }
  auto owned = std::make_unique<Library>();
  try {
    owned->module = machine->load(text);
  } catch (const ptx::MachineError& e) {
    *log = error = e.what();
    return kInvalidPtx;
  }
  if (static_cast<int>(owned->module->target()) > settings.major * 10 + settings.minor) {
    *log = fmt::format("the text is for sm_{}, the device is sm_{}{}", owned->module->target(),
                       settings.major, settings.minor);
    return kNoBinaryForGpu;
  }
  *library = owned.get();
  libraries_.push_back(std::move(owned));
  return kSuccess;
}

bool Driver::unload(Library* library) {
  if (find_library(library) == nullptr) return false;
  streams->finish_all();
  machine->unload(*library->module);
  std::erase_if(functions_, [&](const auto& f) { return f.first.first == library; });
  std::erase_if(libraries_, [&](const auto& l) { return l.get() == library; });
  return true;
}

Library* Driver::find_library(void* handle) {
  for (const auto& l : libraries_) {
    if (l.get() == handle) return l.get();
  }
  return nullptr;
}

Function* Driver::function(Library* library, const char* name) {
  auto& slot = functions_[{library, name}];
  if (slot == nullptr) {
    const ptx::Kernel* kernel = library->module->find(name);
    if (kernel == nullptr) {
      functions_.erase({library, name});
      return nullptr;
    }
    slot = std::make_unique<Function>(Function{.kernel = kernel, .library = library});
  }
  return slot.get();
}

Function* Driver::find_function(void* handle) {
  for (const auto& [key, f] : functions_) {
    if (f.get() == handle) return f.get();
  }
  return nullptr;
}

Result Driver::allocate(std::size_t bytes, DevicePointer* address) {
  if (bytes == 0 || address == nullptr) return kInvalidValue;
  if (bytes > settings.memory_bytes - machine->memory().bytes_in_use()) return kOutOfMemory;
  *address = machine->memory().allocate(bytes);
  owners_[*address] = current()->device;
  return kSuccess;
}

Result Driver::release(DevicePointer address) {
  if (address == 0) return kSuccess;
  if (owners_.erase(address) == 0) return kInvalidValue;
  machine->memory().release(address);
  return kSuccess;
}

Device Driver::device_of(DevicePointer address) const {
  auto after = owners_.upper_bound(address);
  return after == owners_.begin() ? 0 : std::prev(after)->second;
}

int& Call::depth() {
  thread_local int depth = 0;
  return depth;
}

Call::Call(const char* name, Needs needs) : lock_((++depth(), Driver::get().mutex)) {
  Driver& driver = Driver::get();
  if (driver.settings.trace) std::fprintf(stderr, "fake libcuda: %s\n", name);
  result_ = driver.faults.call(name);
  if (result_ != kSuccess || needs == Needs::nothing) return;
  if (!driver.initialised()) {
    result_ = kNotInitialized;
  } else if (driver.faults.lost() != kSuccess) {
    result_ = driver.faults.lost();
  } else if (needs == Needs::context && driver.current() == nullptr) {
    result_ = kInvalidContext;
  }
}

}  // namespace ptx::fake
