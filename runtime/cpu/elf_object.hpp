// A relocatable ELF object placed into this process without a linker's library. Knows the ELF format.
//
// Our kernels are code and constants that refer to nothing outside of themselves, which takes three
// kinds of relocation on x86-64. Whatever else turns up is left to LLVM's linker.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace stepfuse {

class ElfObject {
 public:
  // Null if this is not such an object, or not of this machine.
  static std::unique_ptr<ElfObject> load(std::string_view bytes);
  ~ElfObject();
  ElfObject(const ElfObject&) = delete;
  ElfObject& operator=(const ElfObject&) = delete;

  void* symbol(const std::string& name) const;  // null if there is none

 private:
  ElfObject() = default;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  std::map<std::string, void*> symbols_;  // the global ones
};

}  // namespace stepfuse
