// The recursive-descent parser of PTX text; knows tokens and syntax, no opcodes.
#pragma once

#include <string_view>
#include <vector>

#include "tools/ptx_machine/lexer.hpp"
#include "tools/ptx_machine/scopes.hpp"
#include "tools/ptx_machine/syntax.hpp"

namespace ptx {

// A position in the tokens; every complaint names its line.
class TokenStream {
 public:
  explicit TokenStream(std::string_view source) : source_(source), tokens_(tokenize(source)) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  const Token& take();
  bool accept(std::string_view text);
  void expect(std::string_view text);
  std::string_view word();
  u64 integer();
  std::string_view text_from(const Token& first) const;  // up to the token taken last
  [[noreturn]] void fail(const std::string& what) const;

 private:
  std::string_view source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
};

// .align 8 .b8 name[128] = {...}; everything after the space's own directive.
Variable parse_variable(TokenStream& in, Space space);

Operand parse_operand(TokenStream& in, const Scopes& scopes);

class BodyParser {
 public:
  BodyParser(TokenStream& in, Function& function)
      : in_(in), function_(function), scopes_(function) {}
  void run();

 private:
  bool parse_directive();
  void parse_registers();
  void parse_branch_targets(std::string_view name);
  void parse_statement();

  TokenStream& in_;
  Function& function_;
  Scopes scopes_;
};

}  // namespace ptx
