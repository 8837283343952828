// An object that LLVM has linked into this process. This header knows only std.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace stepfuse {

class LlvmModule {
 public:
  // Throws Error{compile} if the bytes cannot be linked.
  explicit LlvmModule(std::string_view object);
  ~LlvmModule();
  LlvmModule(const LlvmModule&) = delete;
  LlvmModule& operator=(const LlvmModule&) = delete;

  // Returns a function's address, valid while this object lives; throws Error{compile} if there is none.
  void* symbol(const std::string& name) const;

 private:
  struct Jit;
  std::unique_ptr<Jit> jit_;
};

}  // namespace stepfuse
