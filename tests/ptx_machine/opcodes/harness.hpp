// Runs single instructions on the machine: one thread per row of inputs, one result per row.
#pragma once

#include <array>
#include <bit>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tools/ptx_machine/launch.hpp"

namespace ptx::opcodes {

// The text reads its inputs from %a, %b, %c, %e (declared with the types in `in`) and leaves its
// result in %d (declared with `out`). It may use %x0 … %x7 (.b32), %y0 … %y7 (.b64), %h0 … %h3
// (.b16), %q0 … %q3 (.pred), the address %scratch of 4096 zero bytes of global memory, and the
// shared array `block` of 4096 bytes.
struct Case {
  struct Row {
    std::vector<u64> in;
    u64 want;
  };
  std::string text;
  std::vector<std::string> in;
  std::string out;
  std::vector<Row> rows;
  bool any_nan = false;  // a NaN result may be any NaN: the ISA promises no payload
};

// Checks every row, computed by itself and with the other lanes at once; remembers which rows of the opcode table ran.
void check(const Case& test);
std::vector<u64> run(const Case& test, Stepping stepping = Stepping::by_seed);
const std::set<u16>& rows_seen();

inline u64 f(float value) { return std::bit_cast<u32>(value); }
inline u64 d(double value) { return std::bit_cast<u64>(value); }

inline constexpr u64 kNanF = 0x7FFFFFFF;
inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr double kInfD = std::numeric_limits<double>::infinity();
inline const float kNan = std::bit_cast<float>(static_cast<u32>(kNanF));
inline const double kNanD = std::numeric_limits<double>::quiet_NaN();
inline constexpr float kTiny = std::numeric_limits<float>::denorm_min();
inline constexpr double kTinyD = std::numeric_limits<double>::denorm_min();
inline constexpr float kMax = std::numeric_limits<float>::max();
inline constexpr double kMaxD = std::numeric_limits<double>::max();

// Chapters; each a list of cases with hand-worked results.
std::vector<Case> integer_cases();
std::vector<Case> bit_cases();
std::vector<Case> real_cases();
std::vector<Case> compare_cases();
std::vector<Case> convert_cases();
std::vector<Case> memory_cases();
std::vector<Case> control_cases();
std::vector<Case> together_cases();

}  // namespace ptx::opcodes
