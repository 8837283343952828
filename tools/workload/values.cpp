// Fills seeded arrays. Knows ir only.
#include "tools/workload/values.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "ir/semantics/narrow.hpp"

namespace stepfuse {
namespace {

uint64_t fraction_of(const DTypeInfo& f) { return (uint64_t{1} << f.fraction_bits) - 1; }

uint64_t mild_bits(const DTypeInfo& f, uint64_t random) {
  uint64_t sign = (random >> 60) & 1U ? f.sign() : 0;
  switch ((random >> 56) & 3U) {
    case 0:
      return sign;  // zero
    case 1:
      return sign | 1U;  // the smallest subnormal
    case 2:
      return sign | (random & fraction_of(f));  // any subnormal
    default:
      return sign | (fraction_of(f) + 1U);  // the smallest normal
  }
}

uint64_t nonfinite_bits(const DTypeInfo& f, uint64_t random) {
  uint64_t sign = (random >> 60) & 1U ? f.sign() : 0;
  bool nan = !f.has_infinity() || ((random >> 56) & 1U) != 0;
  return sign | f.highest | (nan ? 1U | (random & fraction_of(f)) : 0);
}

uint64_t huge_bits(const DTypeInfo& f, uint64_t random) {
  return ((random >> 60) & 1U ? f.sign() : 0) | (f.highest - (f.has_infinity() ? 1U : 0));
}

uint64_t ordinary_bits(DType dtype, uint64_t random, const Filling& filling) {
  float value = normal_value(random) * filling.scale;
  if (filling.positive) value = std::fabs(value);
  return is_low_precision(dtype) ? narrow(value, dtype) : std::bit_cast<uint32_t>(value);
}

// 1 value in 16 is mild. The rarer values that `spice` asks for are 1 in 256 and, if `certain`,
// this one.
uint64_t spiced_bits(DType dtype, uint64_t random, const Filling& filling, bool certain) {
  Spice spice = filling.spice;
  const DTypeInfo& f = info(dtype);
  uint64_t other = mix_bits(random ^ 0x5bd1e995U);
  bool rare = certain || (other & 0xffU) == 0;
  if (rare && spice == Spice::nonfinite) return nonfinite_bits(f, other);
  if (rare && spice == Spice::huge) return huge_bits(f, other);
  if (rare && spice == Spice::all) {
    return (other >> 55) & 1U ? nonfinite_bits(f, other) : huge_bits(f, other);
  }
  if ((other & 0xf00U) == 0) return mild_bits(f, other);
  return ordinary_bits(dtype, random, filling);
}

// Fills with any bits.
template <class Word>
void fill_words(char* data, uint64_t count, const RandomStream& random) {
  for (uint64_t i = 0; i < count; ++i) {
    auto word = static_cast<Word>(random.bits(i));
    std::memcpy(data + i * sizeof(Word), &word, sizeof(Word));
  }
}

template <class Word>
void fill_floats(char* data, uint64_t count, DType dtype, const RandomStream& random,
                 const Filling& filling) {
  uint64_t certain = random.bits(~uint64_t{0}) % count;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t r = random.bits(i);
    auto word = static_cast<Word>(filling.spice == Spice::none
                                      ? ordinary_bits(dtype, r, filling)
                                      : spiced_bits(dtype, r, filling, i == certain));
    std::memcpy(data + i * sizeof(Word), &word, sizeof(Word));
  }
}

void fill_integers(char* data, uint64_t count, const RandomStream& random, Spice spice) {
  constexpr std::array<int32_t, 4> kEdges = {INT32_MIN, INT32_MAX, -1, 0};
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t r = random.bits(i);
    auto value = static_cast<int32_t>(r & 0xffffU) - 0x8000;
    if (spice != Spice::none && (r >> 60) == 0) value = kEdges[(r >> 50) & 3U];
    std::memcpy(data + i * sizeof(value), &value, sizeof(value));
  }
}

}  // namespace

void fill_values(void* data, uint64_t count, DType dtype, const RandomStream& random,
                 const Filling& filling) {
  if (count == 0) return;
  char* p = static_cast<char*>(data);
  if (dtype == DType::i32) return fill_integers(p, count, random, filling.spice);
  if (is_narrow_integer(dtype) && size_of(dtype) == 1) return fill_words<uint8_t>(p, count, random);
  if (is_narrow_integer(dtype)) return fill_words<uint16_t>(p, count, random);
  if (size_of(dtype) == 1) return fill_floats<uint8_t>(p, count, dtype, random, filling);
  if (size_of(dtype) == 2) return fill_floats<uint16_t>(p, count, dtype, random, filling);
  fill_floats<uint32_t>(p, count, dtype, random, filling);
}

}  // namespace stepfuse
