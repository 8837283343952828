// An object linked into this process by LLVM. Knows only std here.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace stepfuse {

class LlvmModule {
 public:
  // Throws Error{compile} for bytes that cannot be linked.
  explicit LlvmModule(std::string_view object);
  ~LlvmModule();
  LlvmModule(const LlvmModule&) = delete;
  LlvmModule& operator=(const LlvmModule&) = delete;

  // The address of a function, valid while this lives; throws Error{compile} if there is none.
  void* symbol(const std::string& name) const;

 private:
  struct Jit;
  std::unique_ptr<Jit> jit_;
};

}  // namespace stepfuse
