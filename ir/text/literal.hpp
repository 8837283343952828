// Parses literals to their bits. Knows ir only.
#pragma once

#include <stepfuse/types.hpp>

#include "ir/text/lexer.hpp"

namespace stepfuse {

// `1.5`, `-inf`, `true`, or `bits(0x7fc00001)`. It is kept as a token until its type, which follows it, is
// known.
struct Literal {
  Token token;
  bool raw = false;
};

// Throws Error{parse} at the token if the type has no such value.
Bits literal_bits(const Lexer& lexer, const Literal& literal, DType type);

}  // namespace stepfuse
