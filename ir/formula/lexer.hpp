// Splits formula text into tokens. Knows ir errors only.
#pragma once

#include "ir/text/lexer_base.hpp"

namespace stepfuse::formula {

class Lexer final : public LexerBase {
 public:
  Lexer(std::string_view text, std::string_view file) : LexerBase(text, file) { advance(); }

 private:
  void advance() override;
  size_t word_end() const;
};

}  // namespace stepfuse::formula
