// Cuts PTX text into tokens with their line numbers; knows nothing of what they mean.
#pragma once

#include <string_view>
#include <vector>

#include "tools/ptx_machine/numbers.hpp"

namespace ptx {

enum class TokenKind : u8 { word, number, string, punctuation, end };

struct Token {
  TokenKind kind;
  std::string_view text;  // points into the source
  u32 line;

  bool is(std::string_view other) const { return text == other; }
};

std::vector<Token> tokenize(std::string_view source);

}  // namespace ptx
