// A parsed PTX module, still in the words of the text; knows types, not opcodes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/ptx_machine/types.hpp"

namespace ptx {

enum class Space : u8 { generic, global, constant, shared, local, param };

enum class OperandKind : u8 {
  reg,      // %r1, !%p1
  special,  // %tid.x
  integer,  // 42, 0x2a
  real,     // 0f3F800000, 0d3FF0000000000000
  symbol,   // a variable's address, or a label
  address,  // [base+offset]
  vector,   // {%r1, %r2}
  pair,     // %r1|%p1
  sink,     // _
};

struct Operand {
  OperandKind kind = OperandKind::sink;
  Type type = Type::none;           // reg: as declared; real: f32 or f64
  bool negated = false;             // reg: !%p
  u32 reg = 0;                      // reg: index into Function::registers
  u64 bits = 0;                     // integer, real: the value; symbol, address: the byte offset
  std::string_view name = {};       // special, symbol
  std::vector<Operand> parts = {};  // vector, pair: the elements; address: the base
};

struct Statement {
  std::string_view opcode = {};  // with all its modifiers
  std::optional<Operand> guard = {};
  std::vector<Operand> operands = {};
  u32 line = 0;
  u32 scope = 0;
  std::string_view text = {};  // as written, for reports
};

struct Variable {
  std::string name = {};
  Space space = Space::global;
  Type type = Type::b8;
  u32 align = 1;
  u64 bytes = 0;
  bool is_extern = false;        // extern .shared: its size comes with the launch
  std::vector<u8> initial = {};  // empty: zero, as PTX says for .global and .const
};

struct Label {
  u32 scope;
  u32 statement;
};

struct Function {
  std::string name;
  std::vector<Variable> params;
  std::vector<Variable> variables;  // .shared and .local ones of the body
  std::vector<Type> registers;
  std::vector<Statement> statements;
  std::vector<u32> scope_parents;
  std::map<std::pair<u32, std::string>, u32> labels;  // (scope, name) -> statement
  std::map<std::pair<u32, std::string>, std::vector<std::string>> branch_tables;
  u32 max_threads = 1024;
  u32 required_threads = 0;  // 0: any
  u32 min_blocks = 0;
};

struct Program {
  u32 version = 0;  // 78 for 7.8
  u32 target = 0;   // 90 for sm_90
  std::vector<Variable> variables;
  std::vector<Function> entries;
};

// The views in the result point into `text`.
Program parse(std::string_view text);

}  // namespace ptx
