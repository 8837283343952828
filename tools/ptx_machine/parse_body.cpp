// Parses the body of an entry: declarations, labels, blocks and statements.
#include <fmt/format.h>

#include "tools/ptx_machine/error.hpp"
#include "tools/ptx_machine/parser.hpp"

namespace ptx {

void BodyParser::run() {
  in_.expect("{");
  u32 depth = 1;
  while (depth > 0) {
    if (in_.accept("{")) {
      scopes_.open();
      ++depth;
    } else if (in_.accept("}")) {
      if (--depth > 0) scopes_.close();
    } else if (in_.peek().kind == TokenKind::word && in_.peek(1).is(":")) {
      std::string_view name = in_.word();
      in_.expect(":");
      if (in_.accept(".branchtargets")) {
        parse_branch_targets(name);
      } else {
        function_.labels[{scopes_.current(), std::string(name)}] =
            static_cast<u32>(function_.statements.size());
      }
    } else if (!parse_directive()) {
      parse_statement();
    }
  }
}

bool BodyParser::parse_directive() {
  if (!in_.peek().text.starts_with('.')) return false;
  if (in_.accept(".reg")) {
    parse_registers();
  } else if (in_.accept(".shared")) {
    function_.variables.push_back(parse_variable(in_, Space::shared));
    in_.expect(";");
  } else if (in_.accept(".local")) {
    function_.variables.push_back(parse_variable(in_, Space::local));
    in_.expect(";");
  } else if (in_.accept(".pragma")) {
    in_.take();
    in_.expect(";");
  } else {
    throw MachineError(ErrorKind::unknown_opcode, fmt::format("line {}: unknown directive '{}'",
                                                              in_.peek().line, in_.peek().text));
  }
  return true;
}

void BodyParser::parse_registers() {
  std::string_view name = in_.word();
  auto type = type_named(name.substr(1));
  if (!type) in_.fail(fmt::format("unknown register type '{}'", name));
  do {
    std::string_view reg = in_.word();
    std::optional<u32> count;
    if (in_.accept("<")) {
      count = static_cast<u32>(in_.integer());
      in_.expect(">");
    }
    scopes_.declare(reg, count, *type);
  } while (in_.accept(","));
  in_.expect(";");
}

void BodyParser::parse_branch_targets(std::string_view name) {
  auto& targets = function_.branch_tables[{scopes_.current(), std::string(name)}];
  do {
    targets.emplace_back(in_.word());
  } while (in_.accept(","));
  in_.expect(";");
}

void BodyParser::parse_statement() {
  const Token first = in_.peek();
  Statement statement{.line = first.line, .scope = scopes_.current()};
  if (in_.accept("@")) {
    statement.guard = parse_operand(in_, scopes_);
    if (statement.guard->kind != OperandKind::reg) in_.fail("a guard is a predicate register");
  }
  statement.opcode = in_.word();
  if (!in_.peek().is(";")) {
    do {
      if (in_.peek().is("(")) {
        throw MachineError(
            ErrorKind::bad_operand,
            fmt::format("line {}: '{}' with a parameter list", first.line, statement.opcode));
      }
      statement.operands.push_back(parse_operand(in_, scopes_));
    } while (in_.accept(","));
  }
  in_.expect(";");
  statement.text = in_.text_from(first);
  function_.statements.push_back(std::move(statement));
}

}  // namespace ptx
