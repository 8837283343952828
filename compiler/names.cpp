// Makes names for generated text. Knows only std.
#include "compiler/names.hpp"

namespace stepfuse {
namespace {
// LLVM truncates names at 1,024 characters, and other compilers have limits of their own.
constexpr size_t kLongest = 200;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
}  // namespace

std::string identifier(std::string_view text) {
  std::string out(text.substr(0, kLongest));
  for (char& c : out) {
    if (!is_letter_or_digit(c)) c = '_';
  }
  return out;
}

std::string UniqueNames::unique(std::string base) {
  auto [it, is_new] = last_.try_emplace(base, 1);
  if (is_new) return base;
  std::string result;
  do {
    result = base + separator_ + std::to_string(++it->second);
  } while (!last_.try_emplace(result, 1).second);
  return result;
}

}  // namespace stepfuse
