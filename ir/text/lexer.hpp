// Splits IR text into tokens. Knows ir errors only.
#pragma once

#include "ir/text/lexer_base.hpp"

namespace stepfuse {

// A word is [A-Za-z0-9_.+-]+: a keyword, a name or a number.
class Lexer final : public LexerBase {
 public:
  Lexer(std::string_view text, std::string_view file) : LexerBase(text, file) { advance(); }

 private:
  void advance() override;
};

}  // namespace stepfuse
