// The fundamental types of PTX, their names and widths; knows nothing else of the machine.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "tools/ptx_machine/numbers.hpp"

namespace ptx {

enum class Type : u8 {
  none,
  pred,
  b8,
  b16,
  b32,
  b64,
  u8,
  u16,
  u32,
  u64,
  s8,
  s16,
  s32,
  s64,
  f16,
  bf16,
  f16x2,
  bf16x2,
  f32,
  f64
};

enum class Kind : u8 { none, pred, bits, unsigned_int, signed_int, real };

struct TypeInfo {
  std::string_view name;
  u32 bytes;
  Kind kind;
};

inline constexpr std::array<TypeInfo, 20> kTypes = {{
    {"none", 0, Kind::none},        {"pred", 1, Kind::pred},        {"b8", 1, Kind::bits},
    {"b16", 2, Kind::bits},         {"b32", 4, Kind::bits},         {"b64", 8, Kind::bits},
    {"u8", 1, Kind::unsigned_int},  {"u16", 2, Kind::unsigned_int}, {"u32", 4, Kind::unsigned_int},
    {"u64", 8, Kind::unsigned_int}, {"s8", 1, Kind::signed_int},    {"s16", 2, Kind::signed_int},
    {"s32", 4, Kind::signed_int},   {"s64", 8, Kind::signed_int},   {"f16", 2, Kind::bits},
    {"bf16", 2, Kind::bits},        {"f16x2", 4, Kind::bits},       {"bf16x2", 4, Kind::bits},
    {"f32", 4, Kind::real},         {"f64", 8, Kind::real},
}};

constexpr const TypeInfo& info(Type type) { return kTypes[static_cast<std::size_t>(type)]; }
constexpr u32 bytes_of(Type type) { return info(type).bytes; }

constexpr std::optional<Type> type_named(std::string_view name) {
  for (std::size_t i = 1; i < kTypes.size(); ++i) {
    if (kTypes[i].name == name) return static_cast<Type>(i);
  }
  return std::nullopt;
}

}  // namespace ptx
