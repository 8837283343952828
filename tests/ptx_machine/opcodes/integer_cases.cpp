// Integer arithmetic, worked by hand: wrapping, signs, widths, division's corners.
#include "tests/ptx_machine/opcodes/harness.hpp"

namespace ptx::opcodes {
namespace {

constexpr u64 kM1 = 0xFFFFFFFF;
constexpr u64 kM1L = 0xFFFFFFFFFFFFFFFF;
constexpr u64 kMin = 0x80000000;
constexpr u64 kMinL = 0x8000000000000000;

Case two(const std::string& opcode, const std::string& type, std::vector<Case::Row> rows) {
  return {opcode + "." + type + " %d, %a, %b;", {type, type}, type, std::move(rows)};
}
Case one(const std::string& opcode, const std::string& type, std::vector<Case::Row> rows) {
  return {opcode + "." + type + " %d, %a;", {type}, type, std::move(rows)};
}
Case three(const std::string& opcode, const std::string& type, std::vector<Case::Row> rows) {
  return {opcode + "." + type + " %d, %a, %b, %c;", {type, type, type}, type, std::move(rows)};
}

std::vector<Case> additions() {
  return {
      two("add", "u16", {{{0xFFFF, 2}, 1}, {{1, 2}, 3}}),
      two("add", "s16", {{{0x7FFF, 1}, 0x8000}}),
      two("add", "u32", {{{kM1, 2}, 1}, {{3, 4}, 7}}),
      two("add", "s32", {{{0x7FFFFFFF, 1}, kMin}, {{kM1, kM1}, 0xFFFFFFFE}}),
      two("add", "u64", {{{kM1L, 2}, 1}, {{kM1, 1}, 0x100000000}}),
      two("add", "s64", {{{0x7FFFFFFFFFFFFFFF, 1}, kMinL}}),
      two("sub", "u16", {{{0, 1}, 0xFFFF}}),
      two("sub", "s16", {{{0x8000, 1}, 0x7FFF}}),
      two("sub", "u32", {{{0, 1}, kM1}, {{7, 4}, 3}}),
      two("sub", "s32", {{{kMin, 1}, 0x7FFFFFFF}}),
      two("sub", "u64", {{{0x100000000, 1}, kM1}}),
      two("sub", "s64", {{{kMinL, 1}, 0x7FFFFFFFFFFFFFFF}}),
      {"add.s32 %d, %a, -1;", {"s32"}, "s32", {{{0}, kM1}, {{kMin}, 0x7FFFFFFF}}},
      {"add.s64 %d, %a, 0xFFFFFFFFFFFFFFFE;", {"s64"}, "s64", {{{1}, kM1L}}},
  };
}

std::vector<Case> products() {
  return {
      two("mul.lo", "u16", {{{0x1234, 0x10}, 0x2340}}),
      two("mul.lo", "s16", {{{0xFFFF, 3}, 0xFFFD}}),
      two("mul.lo", "u32", {{{0x12345678, 0x1000}, 0x45678000}, {{kM1, kM1}, 1}}),
      two("mul.lo", "s32", {{{kM1, 5}, 0xFFFFFFFB}}),
      two("mul.lo", "u64", {{{kM1L, kM1L}, 1}, {{0x100000001, 0x100000001}, 0x200000001}}),
      two("mul.lo", "s64", {{{kM1L, 3}, 0xFFFFFFFFFFFFFFFD}}),
      two("mul.hi", "u16", {{{0xFFFF, 0xFFFF}, 0xFFFE}}),
      two("mul.hi", "s16", {{{0xFFFF, 2}, 0xFFFF}, {{0x4000, 4}, 1}}),
      two("mul.hi", "u32", {{{kM1, kM1}, 0xFFFFFFFE}, {{kMin, 2}, 1}}),
      two("mul.hi", "s32", {{{kM1, kM1}, 0}, {{kMin, 2}, kM1}, {{kMin, kMin}, 0x40000000}}),
      two("mul.hi", "u64", {{{kM1L, kM1L}, 0xFFFFFFFFFFFFFFFE}, {{kMinL, 2}, 1}}),
      two("mul.hi", "s64", {{{kM1L, kM1L}, 0}, {{kMinL, 2}, kM1L}}),
      {"mul.wide.u16 %d, %a, %b;", {"u16", "u16"}, "u32", {{{0xFFFF, 0xFFFF}, 0xFFFE0001}}},
      {"mul.wide.s16 %d, %a, %b;", {"s16", "s16"}, "s32", {{{0xFFFF, 3}, 0xFFFFFFFD}}},
      {"mul.wide.u32 %d, %a, %b;", {"u32", "u32"}, "u64", {{{kM1, kM1}, 0xFFFFFFFE00000001}}},
      {"mul.wide.s32 %d, %a, %b;",
       {"s32", "s32"},
       "s64",
       {{{kM1, 4}, 0xFFFFFFFFFFFFFFFC}, {{0x40000000, 4}, 0x100000000}}},
      three("mad.lo", "u16", {{{0xFFFF, 2, 3}, 1}}),
      three("mad.lo", "s32", {{{kM1, 5, 6}, 1}, {{0x10000, 0x10000, 9}, 9}}),
      three("mad.lo", "u64", {{{0x100000000, 0x100000000, 5}, 5}}),
      three("mad.hi", "u32", {{{kM1, kM1, 1}, kM1}, {{kM1, kM1, 3}, 1}}),
      three("mad.hi", "s32", {{{kMin, kMin, 1}, 0x40000001}}),
      three("mad.hi", "s64", {{{kMinL, 2, 3}, 2}}),
      {"mad.wide.u16 %d, %a, %b, %c;",
       {"u16", "u16", "u32"},
       "u32",
       {{{0xFFFF, 0xFFFF, 1}, 0xFFFE0002}}},
      {"mad.wide.u32 %d, %a, %b, %c;",
       {"u32", "u32", "u64"},
       "u64",
       {{{kM1, kM1, 0x1FFFFFFFF}, 0}, {{3, 4, 5}, 17}}},
      {"mad.wide.s32 %d, %a, %b, %c;", {"s32", "s32", "s64"}, "s64", {{{kM1, 2, 1}, kM1L}}},
      three("sad", "u32", {{{3, 10, 100}, 107}, {{0, kM1, 0}, kM1}}),
      three("sad", "s32", {{{kM1, 1, 10}, 12}, {{5, kM1, 0}, 6}}),
      three("sad", "u16", {{{1, 0xFFFF, 1}, 0xFFFF}}),
      three("sad", "s64", {{{kM1L, 1, 1}, 3}}),
  };
}

std::vector<Case> quotients() {
  return {
      two("div", "u16", {{{0xFFFF, 0x10}, 0xFFF}, {{5, 0}, 0xFFFF}}),
      two("div", "s16", {{{0xFFF9, 2}, 0xFFFD}, {{0x8000, 0xFFFF}, 0x8000}}),
      two("div", "u32", {{{kM1, 2}, 0x7FFFFFFF}, {{7, 0}, kM1}}),
      two("div", "s32",
          {{{0xFFFFFFF9, 2}, 0xFFFFFFFD}, {{7, 0xFFFFFFFE}, 0xFFFFFFFD}, {{kMin, kM1}, kMin}}),
      two("div", "u64", {{{kM1L, 0x100000000}, kM1}, {{1, 0}, kM1L}}),
      two("div", "s64", {{{kMinL, kM1L}, kMinL}, {{0xFFFFFFFFFFFFFFF9, 2}, 0xFFFFFFFFFFFFFFFD}}),
      two("rem", "u16", {{{0xFFFF, 0x10}, 0xF}}),
      two("rem", "s16", {{{0xFFF9, 2}, 0xFFFF}, {{0x8000, 0xFFFF}, 0}}),
      two("rem", "u32", {{{kM1, 10}, 5}, {{5, 0}, kM1}}),
      two("rem", "s32",
          {{{0xFFFFFFF9, 2}, kM1}, {{7, 0xFFFFFFFE}, 1}, {{kMin, kM1}, 0}, {{7, 3}, 1}}),
      two("rem", "u64", {{{kM1L, 10}, 5}}),
      two("rem", "s64", {{{kMinL, kM1L}, 0}, {{0xFFFFFFFFFFFFFFF9, 4}, 0xFFFFFFFFFFFFFFFD}}),
  };
}

std::vector<Case> orders() {
  return {
      one("abs", "s16", {{{0xFFFF}, 1}, {{0x8000}, 0x8000}}),
      one("abs", "s32", {{{kM1}, 1}, {{kMin}, kMin}, {{9}, 9}}),
      one("abs", "s64", {{{kM1L}, 1}, {{kMinL}, kMinL}}),
      one("neg", "s16", {{{1}, 0xFFFF}, {{0x8000}, 0x8000}}),
      one("neg", "s32", {{{1}, kM1}, {{0}, 0}, {{kMin}, kMin}}),
      one("neg", "s64", {{{1}, kM1L}}),
      two("min", "u16", {{{1, 0xFFFF}, 1}}),
      two("min", "s16", {{{1, 0xFFFF}, 0xFFFF}}),
      two("min", "u32", {{{1, kM1}, 1}}),
      two("min", "s32", {{{1, kM1}, kM1}, {{kMin, 0x7FFFFFFF}, kMin}}),
      two("min", "u64", {{{1, kM1L}, 1}}),
      two("min", "s64", {{{1, kM1L}, kM1L}}),
      two("max", "u16", {{{1, 0xFFFF}, 0xFFFF}}),
      two("max", "s16", {{{1, 0xFFFF}, 1}}),
      two("max", "u32", {{{1, kM1}, kM1}}),
      two("max", "s32", {{{1, kM1}, 1}, {{kMin, 0x7FFFFFFF}, 0x7FFFFFFF}}),
      two("max", "u64", {{{1, kM1L}, kM1L}}),
      two("max", "s64", {{{1, kM1L}, 1}}),
  };
}

}  // namespace

std::vector<Case> integer_cases() {
  std::vector<Case> all;
  for (auto part : {additions(), products(), quotients(), orders()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace ptx::opcodes
