// Looks register names up from the innermost block outwards.
#include "tools/ptx_machine/scopes.hpp"

#include <charconv>

namespace ptx {

Scopes::Scopes(Function& function) : function_(function) {
  function_.scope_parents = {0};
  stack_ = {0};
  families_.resize(1);
}

void Scopes::open() {
  function_.scope_parents.push_back(current());
  stack_.push_back(static_cast<u32>(function_.scope_parents.size() - 1));
  families_.emplace_back();
}

void Scopes::close() { stack_.pop_back(); }

void Scopes::declare(std::string_view name, std::optional<u32> count, Type type) {
  auto first = static_cast<u32>(function_.registers.size());
  families_[current()].push_back({name, count, first});
  function_.registers.resize(first + count.value_or(1), type);
}

std::optional<u32> Scopes::find(std::string_view name) const {
  std::size_t digits = name.find_last_not_of("0123456789") + 1;
  std::string_view prefix = name.substr(0, digits);
  u32 number = 0;
  bool numbered = digits < name.size();
  if (numbered) std::from_chars(name.data() + digits, name.data() + name.size(), number);
  for (auto scope = stack_.rbegin(); scope != stack_.rend(); ++scope) {
    for (const Family& family : families_[*scope]) {
      if (family.count.has_value()) {
        if (numbered && family.prefix == prefix && number < *family.count) {
          return family.first + number;
        }
      } else if (family.prefix == name) {
        return family.first;
      }
    }
  }
  return std::nullopt;
}

}  // namespace ptx
