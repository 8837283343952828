// Parses the top level of a module: directives, variables, entries.
#include <charconv>

#include <fmt/format.h>

#include "tools/ptx_machine/error.hpp"
#include "tools/ptx_machine/needs.hpp"
#include "tools/ptx_machine/parser.hpp"

namespace ptx {
namespace {

void append_bytes(std::vector<u8>& out, u64 bits, u32 bytes) {
  for (u32 i = 0; i < bytes; ++i) out.push_back(static_cast<u8>(bits >> (8 * i)));
}

void parse_initial(TokenStream& in, Variable& variable) {
  Function nothing;
  Scopes no_registers(nothing);
  auto one = [&] {
    Operand value = parse_operand(in, no_registers);
    if (value.kind != OperandKind::integer && value.kind != OperandKind::real) {
      in.fail("an initial value must be a number");
    }
    append_bytes(variable.initial, value.bits, bytes_of(variable.type));
  };
  if (!in.accept("{")) return one();
  if (in.accept("}")) return;
  do {
    one();
  } while (in.accept(","));
  in.expect("}");
}

void skip_block(TokenStream& in) {
  in.expect("{");
  for (u32 depth = 1; depth > 0;) {
    const Token& token = in.take();
    if (token.kind == TokenKind::end) in.fail("a block is not closed");
    if (token.is("{")) ++depth;
    if (token.is("}")) --depth;
  }
}

void parse_params(TokenStream& in, Function& function) {
  if (!in.accept("(")) return;
  if (in.accept(")")) return;
  do {
    in.expect(".param");
    function.params.push_back(parse_variable(in, Space::param));
  } while (in.accept(","));
  in.expect(")");
}

u32 thread_count(TokenStream& in) {
  u64 count = in.integer();
  while (in.accept(",")) count *= in.integer();
  return static_cast<u32>(count);
}

Function parse_entry(TokenStream& in) {
  Function function;
  function.name = in.word();
  parse_params(in, function);
  while (!in.peek().is("{")) {
    if (in.accept(".maxntid")) {
      function.max_threads = thread_count(in);
    } else if (in.accept(".reqntid")) {
      function.required_threads = function.max_threads = thread_count(in);
    } else if (in.accept(".minnctapersm")) {
      function.min_blocks = static_cast<u32>(in.integer());
    } else if (in.accept(".maxnreg")) {
      in.integer();
    } else if (in.accept(".pragma")) {
      in.take();
      in.expect(";");
    } else {
      throw MachineError(ErrorKind::unknown_opcode, fmt::format("line {}: unknown directive '{}'",
                                                                in.peek().line, in.peek().text));
    }
  }
  BodyParser(in, function).run();
  return function;
}

void parse_version(TokenStream& in, Program& program) {
  std::string_view text = in.take().text;
  u32 major = 0, minor = 0;
  const char* end = text.data() + text.size();
  auto [dot, bad] = std::from_chars(text.data(), end, major);
  bool good = bad == std::errc() && dot != end && *dot == '.' &&
              std::from_chars(dot + 1, end, minor).ptr == end && minor < 10;
  if (!good) in.fail(fmt::format("'{}' is not a version, as in 9.0", text));
  program.version = 10 * major + minor;
}

void parse_target(TokenStream& in, Program& program) {
  std::string_view name = in.word();
  if (!name.starts_with("sm_")) in.fail(fmt::format("unknown target '{}'", name));
  std::from_chars(name.data() + 3, name.data() + name.size(), program.target);
  while (in.accept(",")) in.word();
}

}  // namespace

Variable parse_variable(TokenStream& in, Space space) {
  Variable variable{.space = space};
  u32 align = 0;
  while (in.peek().text.starts_with('.')) {
    std::string_view word = in.word();
    if (word == ".align") {
      align = static_cast<u32>(in.integer());
    } else if (word == ".ptr") {  // what a pointer parameter points to; its alignment is not ours
      while (in.peek().text.starts_with('.')) {
        if (in.word() == ".align") in.integer();
      }
    } else if (auto type = type_named(word.substr(1))) {
      variable.type = *type;
    } else {
      in.fail(fmt::format("unknown attribute '{}' of a variable", word));
    }
  }
  variable.name = in.word();
  variable.align = align != 0 ? align : bytes_of(variable.type);
  variable.bytes = bytes_of(variable.type);
  while (in.accept("[")) {
    variable.bytes *= in.peek().is("]") ? 0 : in.integer();
    in.expect("]");
  }
  if (in.accept("=")) parse_initial(in, variable);
  return variable;
}

Program parse(std::string_view text) {
  TokenStream in(text);
  Program program;
  bool is_extern = false;
  while (in.peek().kind != TokenKind::end) {
    if (in.accept(".version")) {
      parse_version(in, program);
    } else if (in.accept(".target")) {
      parse_target(in, program);
    } else if (in.accept(".address_size")) {
      if (in.integer() != 64) in.fail("only 64-bit addresses are known");
    } else if (in.accept(".visible") || in.accept(".weak") || in.accept(".common")) {
      continue;
    } else if (in.accept(".extern")) {
      is_extern = true;
      continue;
    } else if (in.accept(".entry")) {
      program.entries.push_back(parse_entry(in));
    } else if (in.accept(".func")) {
      // Inlined everywhere and left behind: there is no call, so nothing can reach it.
      while (!in.peek().is("{") && in.peek().kind != TokenKind::end) in.take();
      skip_block(in);
    } else if (in.accept(".section")) {
      in.take();
      skip_block(in);
    } else if (in.peek().is(".global") || in.peek().is(".const") || in.peek().is(".shared")) {
      std::string_view space = in.word();
      Variable variable = parse_variable(in, space == ".global"  ? Space::global
                                             : space == ".const" ? Space::constant
                                                                 : Space::shared);
      variable.is_extern = is_extern;
      in.expect(";");
      program.variables.push_back(std::move(variable));
    } else {
      throw MachineError(ErrorKind::unknown_opcode, fmt::format("line {}: unknown directive '{}'",
                                                                in.peek().line, in.peek().text));
    }
    is_extern = false;
  }
  if (std::string lacks = lacking(program); !lacks.empty()) in.fail(lacks);
  return program;
}

}  // namespace ptx
