// Register names of one function body and the blocks they are visible in.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "tools/ptx_machine/syntax.hpp"

namespace ptx {

class Scopes {
 public:
  explicit Scopes(Function& function);

  void open();
  void close();
  u32 current() const { return stack_.back(); }

  // "%r<8>" declares %r0 … %r7; without a count just the name.
  void declare(std::string_view name, std::optional<u32> count, Type type);
  std::optional<u32> find(std::string_view name) const;

 private:
  struct Family {
    std::string_view prefix;
    std::optional<u32> count;
    u32 first;
  };

  Function& function_;
  std::vector<u32> stack_;
  std::vector<std::vector<Family>> families_;  // one list per scope
};

}  // namespace ptx
