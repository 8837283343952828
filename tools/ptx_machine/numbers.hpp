// The scalar names of PTX as C++ types; knows only the standard library.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace ptx {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

// A register is a slot of 64 bits, or of 32 bits if its type is narrower. Functions of values see
// 64 bits. Every reader truncates to its own width, so a writer may leave anything above it; sub-word
// loads rely on signed values being extended through the whole slot.
template <class T>
T from_slot(u64 raw) {
  if constexpr (std::is_same_v<T, f32>) {
    return std::bit_cast<f32>(static_cast<u32>(raw));
  } else if constexpr (std::is_same_v<T, f64>) {
    return std::bit_cast<f64>(raw);
  } else if constexpr (std::is_same_v<T, bool>) {
    return (raw & 1) != 0;
  } else {
    return static_cast<T>(raw);
  }
}

template <class T>
u64 to_slot(T value) {
  if constexpr (std::is_same_v<T, f32>) {
    return std::bit_cast<u32>(value);
  } else if constexpr (std::is_same_v<T, f64>) {
    return std::bit_cast<u64>(value);
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<u64>(static_cast<s64>(value));
  } else {
    return static_cast<u64>(value);
  }
}

}  // namespace ptx
