// The table of what came with which version and processor; knows forms, no semantics.
#include "tools/ptx_machine/needs.hpp"

#include <fmt/format.h>

namespace ptx {
namespace {

constexpr u32 kNewest = 99;  // major 9: of what is newer nothing is known
constexpr u32 kOldestTarget = 50;

struct Need {
  std::string_view opcode;    // "" any
  std::string_view modifier;  // "" every form
  u32 version;                // 78: 7.8
  u32 target;
};

// Only what is above the oldest target.
constexpr Need kNeeds[] = {
    {"fence", "", 60, 70},
    {"match", "", 60, 70},
    {"nanosleep", "", 63, 70},
    {"redux", "", 70, 80},
    {"createpolicy", "", 74, 80},
    {"ld", "relaxed", 60, 70},
    {"ld", "acquire", 60, 70},
    {"st", "relaxed", 60, 70},
    {"st", "release", 60, 70},
    {"atom", "relaxed", 60, 70},
    {"atom", "acquire", 60, 70},
    {"atom", "release", 60, 70},
    {"atom", "acq_rel", 60, 70},
    {"red", "relaxed", 60, 70},
    {"red", "acquire", 60, 70},
    {"red", "release", 60, 70},
    {"red", "acq_rel", 60, 70},
    {"", "L1::evict_normal", 74, 70},
    {"", "L1::evict_unchanged", 74, 70},
    {"", "L1::evict_first", 74, 70},
    {"", "L1::evict_last", 74, 70},
    {"", "L1::no_allocate", 74, 70},
    {"", "L2::cache_hint", 74, 80},
    {"", "L2::64B", 74, 75},
    {"", "L2::128B", 74, 75},
    {"", "L2::256B", 74, 80},
    {"", "v8", 88, 100},
    {"", "shared::cta", 78, 30},
    {"", "param::entry", 83, 30},
    {"cvta", "param", 77, 70},
    {"isspacep", "param", 77, 70},
    {"min", "NaN", 70, 80},
    {"max", "NaN", 70, 80},
    {"cvt", "f16x2", 70, 80},
    {"cvt", "bf16x2", 70, 80},
};

// The version that first knew a target.
struct Known {
  u32 target, version;
};
constexpr Known kTargets[] = {{50, 40},  {52, 41},  {53, 42}, {60, 50},  {61, 50},  {62, 50},
                              {70, 60},  {72, 61},  {75, 63}, {80, 70},  {86, 71},  {87, 74},
                              {88, 90},  {89, 78},  {90, 78}, {100, 86}, {101, 86}, {103, 88},
                              {110, 90}, {120, 87}, {121, 88}};

std::string compare(const Program& program, u32 version, u32 target) {
  if (program.target < target) {
    return fmt::format("needs .target sm_{}, the module has sm_{}", target, program.target);
  }
  if (program.version < version) {
    return fmt::format("needs .version {}.{}, the module has {}.{}", version / 10, version % 10,
                       program.version / 10, program.version % 10);
  }
  return {};
}

}  // namespace

std::string lacking(const Program& program, std::string_view opcode, const Form& form) {
  for (const Need& need : kNeeds) {
    if (!need.opcode.empty() && need.opcode != opcode) continue;
    if (!need.modifier.empty() && !form.has(need.modifier)) continue;
    std::string lacks = compare(program, need.version, need.target);
    if (!lacks.empty()) return lacks;
  }
  if (opcode == "cvt" && form.has("bf16")) {
    return form.first == Type::bf16 ? compare(program, 70, 80) : compare(program, 78, 90);
  }
  return {};
}

std::string lacking(const Program& program) {
  if (program.version == 0) return "a module begins with .version";
  if (program.version > kNewest) {
    return fmt::format(".version {}.{} is newer than what is known here", program.version / 10,
                       program.version % 10);
  }
  if (program.target < kOldestTarget) return "a module needs a .target, sm_50 or above";
  for (const Known& known : kTargets) {
    if (known.target != program.target) continue;
    std::string lacks = compare(program, known.version, known.target);
    return lacks.empty() ? lacks : fmt::format(".target sm_{} {}", known.target, lacks);
  }
  return fmt::format("unknown target sm_{}", program.target);
}

}  // namespace ptx
