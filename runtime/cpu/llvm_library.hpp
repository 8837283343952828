// libLLVM through its C API, opened when the first kernel is compiled. This header and its .cpp are the
// only files that know LLVM's headers. In a build without those headers they only report why nothing can
// be compiled.
#pragma once

#include <string>

#include "runtime/cpu/llvm_compiler.hpp"

#if STEPFUSE_HAVE_LLVM
#include <llvm-c/Analysis.h>
#include <llvm-c/Core.h>
#include <llvm-c/Error.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/LLJIT.h>
#include <llvm-c/Orc.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <llvm-c/Transforms/PassBuilder.h>

// The functions that are used. A libLLVM that lacks one is refused, and the error names the function.
#define STEPFUSE_LLVM_FUNCTIONS(X)              \
  X(LLVMContextCreate)                          \
  X(LLVMContextDispose)                         \
  X(LLVMCreateMemoryBufferWithMemoryRangeCopy)  \
  X(LLVMCreatePassBuilderOptions)               \
  X(LLVMCreateTargetDataLayout)                 \
  X(LLVMCreateTargetMachine)                    \
  X(LLVMDisposeErrorMessage)                    \
  X(LLVMDisposeMemoryBuffer)                    \
  X(LLVMDisposeMessage)                         \
  X(LLVMDisposeModule)                          \
  X(LLVMDisposePassBuilderOptions)              \
  X(LLVMDisposeTargetData)                      \
  X(LLVMDisposeTargetMachine)                   \
  X(LLVMGetBufferSize)                          \
  X(LLVMGetBufferStart)                         \
  X(LLVMGetDefaultTargetTriple)                 \
  X(LLVMGetErrorMessage)                        \
  X(LLVMGetHostCPUFeatures)                     \
  X(LLVMGetHostCPUName)                         \
  X(LLVMGetTargetFromTriple)                    \
  X(LLVMGetVersion)                             \
  X(LLVMOrcCreateLLJIT)                         \
  X(LLVMOrcDisposeLLJIT)                        \
  X(LLVMOrcLLJITAddObjectFile)                  \
  X(LLVMOrcLLJITGetMainJITDylib)                \
  X(LLVMOrcLLJITLookup)                         \
  X(LLVMParseIRInContext)                       \
  X(LLVMPassBuilderOptionsSetLoopUnrolling)     \
  X(LLVMPassBuilderOptionsSetLoopVectorization) \
  X(LLVMPassBuilderOptionsSetSLPVectorization)  \
  X(LLVMRunPasses)                              \
  X(LLVMSetModuleDataLayout)                    \
  X(LLVMSetTarget)                              \
  X(LLVMTargetMachineEmitToMemoryBuffer)        \
  X(LLVMVerifyModule)
#if defined(__x86_64__)
#define STEPFUSE_LLVM_TARGET_FUNCTIONS(X) \
  X(LLVMInitializeX86TargetInfo)          \
  X(LLVMInitializeX86Target)              \
  X(LLVMInitializeX86TargetMC)            \
  X(LLVMInitializeX86AsmPrinter)          \
  X(LLVMInitializeX86AsmParser)
#elif defined(__aarch64__)
#define STEPFUSE_LLVM_TARGET_FUNCTIONS(X) \
  X(LLVMInitializeAArch64TargetInfo)      \
  X(LLVMInitializeAArch64Target)          \
  X(LLVMInitializeAArch64TargetMC)        \
  X(LLVMInitializeAArch64AsmPrinter)      \
  X(LLVMInitializeAArch64AsmParser)
#endif
#endif

namespace stepfuse {

#if STEPFUSE_HAVE_LLVM
struct LlvmLibrary {
#define X(name) decltype(&::name) name = nullptr;
  STEPFUSE_LLVM_FUNCTIONS(X)
  STEPFUSE_LLVM_TARGET_FUNCTIONS(X)
#undef X
};

// Throws Error{device} that names every file tried.
const LlvmLibrary& llvm_library();
#endif

}  // namespace stepfuse
