// Compiles LLVM IR text to an object, and links an object. Knows libLLVM's C API.
#include "runtime/cpu/llvm_compiler.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "ir/text/words.hpp"
#include "runtime/caches/kernel_size.hpp"
#include "runtime/cpu/llvm_library.hpp"
#include "runtime/cpu/llvm_module.hpp"

namespace stepfuse {
namespace {

// The emitter's code is nearly final. These passes keep the function's memory in registers, remove values that loops
// carry without using them, and move invariant code out of the loops.
constexpr const char* kPasses =
    "function(sroa,adce,early-cse,simplifycfg,instcombine<no-verify-fixpoint>,"
    "loop-mssa(licm),simplifycfg,early-cse)";
constexpr const char* kQuickPasses = "function(mem2reg)";

}  // namespace

const char* llvm_passes(CpuCode code) { return code == CpuCode::quick ? kQuickPasses : kPasses; }

CpuCode cpu_code_from_environment() {
  const char* wanted = std::getenv("STEPFUSE_CPU_CODE");
  std::string_view text = wanted != nullptr ? wanted : "";
  if (text.empty() || text == "optimized") return CpuCode::optimized;
  if (text == "quick") return CpuCode::quick;
  throw Error(ErrorKind::usage, fmt::format("STEPFUSE_CPU_CODE={} is neither optimized nor quick",
                                            text.substr(0, 40)));
}

#if STEPFUSE_HAVE_LLVM
namespace {

using Clock = std::chrono::steady_clock;
double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string take(const LlvmLibrary& l, char* message) {
  std::string text = message == nullptr ? "" : message;
  if (message != nullptr) l.LLVMDisposeMessage(message);
  return text;
}

std::string take(const LlvmLibrary& l, LLVMErrorRef error) {
  char* message = l.LLVMGetErrorMessage(error);
  std::string text = message;
  l.LLVMDisposeErrorMessage(message);
  return text;
}

[[noreturn]] void fail(std::string_view what, const std::string& message) {
  throw Error(ErrorKind::compile, fmt::format("LLVM {}: {}", what, message));
}

template <class T, class F>
auto owned(T* p, F dispose) {
  return std::unique_ptr<T, F>(p, dispose);
}

// LLVM's schedulers take quadratic time in the memory operations of one block: 6 s for 4,000. Only steps
// with hundreds of buffers exceed this, and such steps wait for memory in any order of instructions.
constexpr size_t kMostScheduled = 1500;

size_t largest_block(std::string_view text) {
  size_t largest = 0, operations = 0;
  for (std::string_view line : split(text, "\n")) {
    if (line.ends_with(':')) operations = 0;
    operations += line.starts_with("  store ") || line.find(" = load ") != line.npos ? 1 : 0;
    largest = std::max(largest, operations);
  }
  return largest;
}

class Compilation {
 public:
  Compilation(const std::string& text, const CpuTarget& target, CpuCode code)
      : l_(llvm_library()),
        context_(owned(l_.LLVMContextCreate(), l_.LLVMContextDispose)),
        passes_(llvm_passes(code)) {
    Clock::time_point start = Clock::now();
    parse(text);
    bool quick = code == CpuCode::quick || largest_block(text) > kMostScheduled;
    make_machine(target, quick ? LLVMCodeGenLevelNone : LLVMCodeGenLevelDefault);
    times_.parse_ms = ms_since(start);
  }

  CpuObject run() {
    Clock::time_point start = Clock::now();
    auto options = owned(l_.LLVMCreatePassBuilderOptions(), l_.LLVMDisposePassBuilderOptions);
    l_.LLVMPassBuilderOptionsSetLoopVectorization(options.get(), 0);
    l_.LLVMPassBuilderOptionsSetSLPVectorization(options.get(), 0);
    l_.LLVMPassBuilderOptionsSetLoopUnrolling(options.get(), 0);
    LLVMErrorRef error = l_.LLVMRunPasses(module_.get(), passes_, machine_.get(), options.get());
    if (error != nullptr) fail("could not optimize the kernel", take(l_, error));
    times_.passes_ms = ms_since(start);

    start = Clock::now();
    char* message = nullptr;
    LLVMMemoryBufferRef buffer = nullptr;
    if (l_.LLVMTargetMachineEmitToMemoryBuffer(machine_.get(), module_.get(), LLVMObjectFile,
                                               &message, &buffer) != 0) {
      fail("could not generate code", take(l_, message));
    }
    auto object = owned(buffer, l_.LLVMDisposeMemoryBuffer);
    std::string bytes(l_.LLVMGetBufferStart(buffer), l_.LLVMGetBufferSize(buffer));
    times_.codegen_ms = ms_since(start);
    return {std::move(bytes), times_};
  }

 private:
  template <class T>
  using Owned = std::unique_ptr<T, void (*)(T*)>;

  void parse(const std::string& text) {
    char* message = nullptr;
    LLVMModuleRef module = nullptr;
    // LLVM takes ownership of the buffer, even if it fails.
    LLVMMemoryBufferRef buffer =
        l_.LLVMCreateMemoryBufferWithMemoryRangeCopy(text.data(), text.size(), "kernel.ll");
    if (l_.LLVMParseIRInContext(context_.get(), buffer, &module, &message) != 0) {
      fail("rejects the kernel's text", take(l_, message));
    }
    module_ = Owned<LLVMOpaqueModule>(module, l_.LLVMDisposeModule);
    if (l_.LLVMVerifyModule(module, LLVMReturnStatusAction, &message) != 0) {
      fail("rejects the kernel", take(l_, message));
    }
    l_.LLVMDisposeMessage(message);
  }

  void make_machine(const CpuTarget& target, LLVMCodeGenOptLevel level) {
    char* message = nullptr;
    auto triple = owned(l_.LLVMGetDefaultTargetTriple(), l_.LLVMDisposeMessage);
    LLVMTargetRef backend = nullptr;
    if (l_.LLVMGetTargetFromTriple(triple.get(), &backend, &message) != 0) {
      fail(fmt::format("has no code generator for {}", triple.get()), take(l_, message));
    }
    machine_ = Owned<LLVMOpaqueTargetMachine>(
        l_.LLVMCreateTargetMachine(backend, triple.get(), target.cpu.c_str(),
                                   target.features.c_str(), level, LLVMRelocPIC,
                                   LLVMCodeModelDefault),
        l_.LLVMDisposeTargetMachine);
    l_.LLVMSetTarget(module_.get(), triple.get());
    auto layout = owned(l_.LLVMCreateTargetDataLayout(machine_.get()), l_.LLVMDisposeTargetData);
    l_.LLVMSetModuleDataLayout(module_.get(), layout.get());
  }

  const LlvmLibrary& l_;
  Owned<LLVMOpaqueContext> context_;
  const char* passes_;
  Owned<LLVMOpaqueModule> module_{nullptr, nullptr};
  Owned<LLVMOpaqueTargetMachine> machine_{nullptr, nullptr};
  CompileTimes times_;
};

}  // namespace

CpuObject compile_cpu(const std::string& text, const CpuTarget& target, CpuCode code) {
  check_kernel_size(text, "LLVM IR");
  return Compilation(text, target, code).run();
}

struct LlvmModule::Jit {
  LLVMOrcLLJITRef jit = nullptr;
  ~Jit() {
    if (jit == nullptr) return;
    const LlvmLibrary& l = llvm_library();
    if (LLVMErrorRef error = l.LLVMOrcDisposeLLJIT(jit); error != nullptr) take(l, error);
  }
};

LlvmModule::LlvmModule(std::string_view object) : jit_(std::make_unique<Jit>()) {
  const LlvmLibrary& l = llvm_library();
  if (LLVMErrorRef error = l.LLVMOrcCreateLLJIT(&jit_->jit, nullptr); error != nullptr) {
    fail("could not start its linker", take(l, error));
  }
  LLVMMemoryBufferRef buffer =
      l.LLVMCreateMemoryBufferWithMemoryRangeCopy(object.data(), object.size(), "kernel.o");
  LLVMOrcJITDylibRef library = l.LLVMOrcLLJITGetMainJITDylib(jit_->jit);
  if (LLVMErrorRef error = l.LLVMOrcLLJITAddObjectFile(jit_->jit, library, buffer);
      error != nullptr) {
    fail("could not link the kernel", take(l, error));
  }
}

LlvmModule::~LlvmModule() = default;

void* LlvmModule::symbol(const std::string& name) const {
  const LlvmLibrary& l = llvm_library();
  LLVMOrcExecutorAddress address = 0;
  if (LLVMErrorRef error = l.LLVMOrcLLJITLookup(jit_->jit, &address, name.c_str());
      error != nullptr) {
    fail("could not link the kernel", take(l, error));
  }
  return reinterpret_cast<void*>(address);
}

#else

CpuObject compile_cpu(const std::string&, const CpuTarget&, CpuCode) {
  throw Error(ErrorKind::device, llvm_status().problem);
}

struct LlvmModule::Jit {};
LlvmModule::LlvmModule(std::string_view) { throw Error(ErrorKind::device, llvm_status().problem); }
LlvmModule::~LlvmModule() = default;
void* LlvmModule::symbol(const std::string&) const { return nullptr; }

#endif

}  // namespace stepfuse
