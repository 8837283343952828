// The state behind the fake driver's functions: devices, contexts, code, the machine and planted
// faults.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tools/ptx_machine/fake_driver/faults.hpp"
#include "tools/ptx_machine/fake_driver/streams.hpp"
#include "tools/ptx_machine/machine.hpp"

namespace ptx::fake {

// Read from the environment; see README.md.
struct Settings {
  int devices = 1;
  int major = 9, minor = 0;
  int multiprocessors = 2;
  int blocks_per_multiprocessor = 0;  // 0: from the kernel's launch bounds
  int driver_version = 13000;
  bool cooperative = true;
  bool memory_pools = true;
  bool pageable = false;  // kernels can access ordinary host memory
  bool trace = false;
  bool lazy = false;
  std::uint64_t seed = 1;
  std::uint64_t memory_bytes = std::uint64_t{8} << 30;
  std::uint64_t step_limit = 4'000'000'000;
  ptx::Checks checks;
  std::string faults;

  static Settings from_environment();
};

struct Context {
  Device device = 0;
  int users = 0;  // of the primary context
  std::uint64_t id = 0;
};

struct Library {
  std::unique_ptr<ptx::Module> module;
  Context* context = nullptr;  // a module's; null for a library
};

struct Function {
  const ptx::Kernel* kernel = nullptr;
  Library* library = nullptr;
  int dynamic_shared_limit = 48 * 1024;
  bool loaded = false;  // by cuFuncLoad or the first launch, which must not be captured
};

struct HostBlock {
  std::size_t bytes = 0;
  bool registered = false;  // by the caller, who owns the memory
};

class Driver {
 public:
  static Driver& get();

  void reset();
  Result initialise();
  bool initialised() const { return initialised_; }

  Context* primary(Device device);
  bool is_context(const Context* context) const;
  // Destroys everything made in the context. Its address then names a new context.
  void reset_context(Context& context);
  std::vector<Context*>& stack();  // of this thread
  Context* current() { return stack().empty() ? nullptr : stack().back(); }

  Result load(const void* image, std::string* log, Library** library);
  bool unload(Library* library);
  Function* function(Library* library, const char* name);
  Function* find_function(void* handle);
  Library* find_library(void* handle);

  int blocks_per_multiprocessor(const Function& function, int threads, std::size_t shared) const;
  Result launch(Function* function, const ptx::LaunchShape& shape, bool cooperative, Stream& stream,
                void** params, void** extra);

  Result allocate(std::size_t bytes, DevicePointer* address);
  Result release(DevicePointer address);
  Device device_of(DevicePointer address) const;
  // Runs device work and turns the machine's exception into the context's error.
  void guarded(const std::function<void()>& work);

  std::recursive_mutex mutex;
  Settings settings;
  Faults faults;
  std::unique_ptr<ptx::Machine> machine;
  std::unique_ptr<Streams> streams;
  std::map<std::uintptr_t, HostBlock> host_blocks;
  std::set<std::shared_ptr<const Graph>*> graph_execs;
  std::set<Graph*> graphs;
  std::string error;
  std::uint64_t instructions = 0;
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;
  std::uint64_t seed = 1;

 private:
  Driver();
  Result check_shape(const Function& function, const ptx::LaunchShape& shape,
                     bool cooperative) const;
  void run_kernel(const ptx::Kernel& kernel, const ptx::LaunchShape& shape,
                  const std::vector<std::byte>& params);

  bool initialised_ = false;
  std::uint64_t next_context_ = 1;
  std::vector<std::unique_ptr<Context>> primaries_;
  std::vector<std::unique_ptr<Library>> libraries_;
  std::map<std::pair<Library*, std::string>, std::unique_ptr<Function>> functions_;
  std::map<DevicePointer, Device> owners_;
};

// The start of every exported function: takes the lock, counts the call, and says whether to return
// a planted error instead of doing it.
class Call {
 public:
  enum class Needs { nothing, initialised, context };

  Call(const char* name, Needs needs);
  ~Call() { --depth(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  Result result() const { return result_; }
  static int& depth();  // nesting depth of calls on this thread

 private:
  std::unique_lock<std::recursive_mutex> lock_;
  Result result_ = kSuccess;
};

#define STEPFUSE_FAKE_CALL(needs)                                                  \
  Call stepfuse_fake_call(__func__, Call::Needs::needs);                           \
  if (stepfuse_fake_call.result() != kSuccess) return stepfuse_fake_call.result(); \
  [[maybe_unused]] Driver& driver = Driver::get()

}  // namespace ptx::fake
