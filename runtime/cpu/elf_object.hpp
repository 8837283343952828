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

  struct Function {
    void* address = nullptr;
    size_t bytes = 0;
  };
  // The global ones by name, each within the pages of code.
  const std::map<std::string, Function>& functions() const { return functions_; }
  void* symbol(const std::string& name) const;  // of a function; null if there is none
  bool is_code(const void* address) const;

 private:
  ElfObject() = default;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  size_t code_ = 0;  // from here on
  std::map<std::string, Function> functions_;
};

}  // namespace stepfuse
