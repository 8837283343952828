// Places a relocatable ELF object into this process without a linker library. Knows the ELF format.
//
// Our kernels are code and constants that refer to nothing outside of themselves, which takes a few kinds
// of relocation. LLVM's linker handles any object that needs more.
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
  // Returns null if this is not such an object, or one for a different machine.
  static std::unique_ptr<ElfObject> load(std::string_view bytes);
  ~ElfObject();
  ElfObject(const ElfObject&) = delete;
  ElfObject& operator=(const ElfObject&) = delete;

  struct Function {
    void* address = nullptr;
    size_t bytes = 0;
  };
  // The global functions by name, each within the pages of code.
  const std::map<std::string, Function>& functions() const { return functions_; }
  void* symbol(const std::string& name) const;  // a function's address; null if there is none
  bool is_code(const void* address) const;

 private:
  ElfObject() = default;
  char* memory_ = nullptr;
  size_t bytes_ = 0;
  size_t code_ = 0;  // offset at which the code starts
  std::map<std::string, Function> functions_;
};

}  // namespace stepfuse
