// Value types of the IR: storage types, granularities and literal bits. Knows only std.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <stepfuse/granularity.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// `bound` stands for the storage type to which buffer @x is bound; Type::buffer says which buffer. No value
// has the type `absent`: it marks a buffer that a tensor does not have (Buffer::is_of).
enum class DType : uint8_t {
#define X(enumerator, ...) enumerator,
#include <stepfuse/dtypes.def>
#undef X
  bound,
  absent
};
inline constexpr int kDTypeCount = static_cast<int>(DType::bound);

enum class DTypeKind : uint8_t { boolean, integer, natural, floating };

// A row of dtypes.def, where the columns are explained.
struct DTypeInfo {
  std::string_view name, code;
  size_t bytes;
  DTypeKind kind;
  int exponent_bits, fraction_bits;
  uint64_t highest, nan;

  // The bits below the sign: exponent and fraction of a float, all but one of an integer.
  constexpr int magnitude_bits() const {
    return kind == DTypeKind::floating ? exponent_bits + fraction_bits
                                       : static_cast<int>(8 * bytes) - 1;
  }
  constexpr uint64_t sign() const { return uint64_t{1} << magnitude_bits(); }
  constexpr bool has_sign() const { return magnitude_bits() < static_cast<int>(8 * bytes); }
  // The number of bit patterns of a type below 8 bytes.
  constexpr uint64_t patterns() const { return has_sign() ? 2 * sign() : sign(); }
  constexpr int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  constexpr bool has_infinity() const {
    return highest == ((uint64_t{1} << exponent_bits) - 1) << fraction_bits;
  }
};
inline constexpr DTypeInfo kDTypes[] = {
#define X(enumerator, text, code, bytes, kind, ...) \
  {text, #code, bytes, DTypeKind::kind, __VA_ARGS__},
#include <stepfuse/dtypes.def>
#undef X
};
inline constexpr const DTypeInfo& info(DType t) { return kDTypes[static_cast<int>(t)]; }

// A value's dtype and granularity.
struct Type {
  DType dtype = DType::f32;
  Granularity at = per::step;
  int32_t buffer = -1;  // only with DType::bound
  // Returns the same type with a different dtype.
  constexpr Type of(DType other) const { return {other, at}; }
  friend bool operator==(const Type&, const Type&) = default;
};

// Whether a value of type `from` can be used as one of type `to`, by granularity.
constexpr bool broadcasts(const Type& from, const Type& to) { return broadcasts(from.at, to.at); }
// Returns the finer type, or `a` if both have the same granularity.
constexpr Type join(const Type& a, const Type& b) {
  if (broadcasts(b, a)) return a;
  return broadcasts(a, b) ? b : Type{a.dtype, per::element};
}

std::string_view name(DType t);
std::optional<DType> dtype_from_name(std::string_view text);

// Returns the bytes of one value in a buffer, state or argument (1 for bool, 0 for absent).
size_t size_of(DType t);

constexpr bool is_float(DType t) { return t < DType::bound && info(t).kind == DTypeKind::floating; }
// Whether it is an integer type in which values are computed: i32 or i64.
constexpr bool is_integer(DType t) {
  return t < DType::bound && info(t).kind == DTypeKind::integer && info(t).bytes >= 4;
}
constexpr bool is_low_precision(DType t) { return is_float(t) && info(t).bytes < 4; }
// Whether it is a narrow integer, a storage type: loaded, stored, and cast from and to i32.
constexpr bool is_narrow_integer(DType t) {
  return t < DType::bound && info(t).bytes < 4 &&
         (info(t).kind == DTypeKind::integer || info(t).kind == DTypeKind::natural);
}
constexpr bool is_storage_only(DType t) { return is_low_precision(t) || is_narrow_integer(t); }

// A set of storage types, as a buffer declares them.
class DTypeSet {
  using Mask = uint32_t;
  static_assert(kDTypeCount < 32, "a set has a bit for each dtype: widen Mask");

 public:
  constexpr DTypeSet() = default;
  constexpr DTypeSet(DType t) : mask_(bit(t)) {}  // NOLINT: a single type is a set
  // The dtypes for which the predicate holds.
  template <class Predicate>
  static constexpr DTypeSet of(Predicate holds) {
    DTypeSet r;
    for (int i = 0; i < kDTypeCount; ++i) {
      auto t = static_cast<DType>(i);
      if (holds(t)) r = r | t;
    }
    return r;
  }
  constexpr bool contains(DType t) const { return (mask_ & bit(t)) != 0; }
  constexpr int size() const { return std::popcount(mask_); }
  constexpr bool empty() const { return mask_ == 0; }
  // Returns the only member; call it on sets of size 1.
  constexpr DType only() const { return first(); }
  // Returns the first member in the order of DType; call it on sets that are not empty.
  constexpr DType first() const { return static_cast<DType>(std::countr_zero(mask_)); }
  // Iterates in the order of DType.
  class Iterator {
   public:
    constexpr explicit Iterator(uint32_t left) : left_(left) {}
    constexpr DType operator*() const { return static_cast<DType>(std::countr_zero(left_)); }
    constexpr Iterator& operator++() {
      left_ &= left_ - 1;
      return *this;
    }
    friend constexpr bool operator==(Iterator, Iterator) = default;

   private:
    uint32_t left_;
  };
  constexpr Iterator begin() const { return Iterator(mask_); }
  constexpr Iterator end() const { return Iterator(0); }
  // Bit t stands for dtype t.
  constexpr uint32_t mask() const { return mask_; }
  friend constexpr DTypeSet operator|(DTypeSet a, DTypeSet b) {
    DTypeSet r;
    r.mask_ = a.mask_ | b.mask_;
    return r;
  }
  friend constexpr DTypeSet operator&(DTypeSet a, DTypeSet b) {
    DTypeSet r;
    r.mask_ = a.mask_ & b.mask_;
    return r;
  }
  friend bool operator==(const DTypeSet&, const DTypeSet&) = default;

 private:
  static constexpr Mask bit(DType t) { return Mask{1} << static_cast<unsigned>(t); }
  Mask mask_ = 0;
};
inline constexpr DTypeSet kLowPrecision = DTypeSet::of(is_low_precision);
inline constexpr DTypeSet kSignedLowPrecision =
    DTypeSet::of([](DType t) { return is_low_precision(t) && info(t).has_sign(); });
// The types that cast_sr rounds to.
inline constexpr DTypeSet kSignedFloats = kSignedLowPrecision | DType::f32;
// The types below f32 that gradients and the model's weights may have: numbers with a sign, in whole bytes.
inline constexpr DTypeSet kModelTypes = DTypeSet::of([](DType t) {
  auto bits = static_cast<int>(8 * info(t).bytes);
  return is_low_precision(t) && info(t).magnitude_bits() + 1 == bits;
});
// The float types that a buffer may allow in any combination.
inline constexpr DTypeSet kFloatStorage = kModelTypes | DType::f32;
inline constexpr DTypeSet kNarrowIntegers = DTypeSet::of(is_narrow_integer);
inline constexpr DTypeSet kIntegerStorage = kNarrowIntegers | DTypeSet(DType::i32);
// The types that a buffer has alone: integers, and the floats for scales and codes.
inline constexpr DTypeSet kSingleStorage = kIntegerStorage | DTypeSet::of([](DType t) {
                                             return is_low_precision(t) && !kModelTypes.contains(t);
                                           });
inline constexpr DTypeSet kAnyDType = DTypeSet::of([](DType) { return true; });

// Returns the members' names in the order of DType.
std::string names(DTypeSet set, std::string_view separator);

// The bits of one value of any dtype, zero-extended. Constants, arguments and states are stored this way. A
// bool is 0 or 1.
struct Bits {
  uint64_t raw = 0;
  static Bits of(bool v) { return {v ? 1U : 0U}; }
  static Bits of(int32_t v) { return {static_cast<uint32_t>(v)}; }
  static Bits of(int64_t v) { return {static_cast<uint64_t>(v)}; }
  static Bits of(float v) { return {std::bit_cast<uint32_t>(v)}; }
  static Bits of(double v) { return {std::bit_cast<uint64_t>(v)}; }
  bool b() const { return raw != 0; }
  int32_t i32() const { return static_cast<int32_t>(static_cast<uint32_t>(raw)); }
  int64_t i64() const { return static_cast<int64_t>(raw); }
  float f32() const { return std::bit_cast<float>(static_cast<uint32_t>(raw)); }
  double f64() const { return std::bit_cast<double>(raw); }
  uint32_t u32() const { return static_cast<uint32_t>(raw); }
  friend bool operator==(const Bits&, const Bits&) = default;
};

// Read and write one value of dtype `t` at `p` (any alignment).
Bits load_bits(const void* p, DType t);
void store_bits(void* p, DType t, Bits v);

bool is_nan(Bits v, DType t);
// Maps every NaN of a type to one pattern, so that digests do not depend on payloads.
Bits canonical_nan(Bits v, DType t);

// Returns the text of a literal that parses back to the same bits: the shortest decimal, nan, inf, -inf,
// true, false, or bits(0x…) for a NaN with a different payload.
std::string literal_text(Bits v, DType t);

}  // namespace stepfuse
#pragma GCC visibility pop
