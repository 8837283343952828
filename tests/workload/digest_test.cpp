// The digest: equal for the same bits, with all NaNs alike, and different for anything else.
#include "runtime/saved/digest.hpp"

#include <cstring>
#include <set>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

using namespace stepfuse;

namespace {
template <class T>
std::string digest(DType dtype, const std::vector<T>& values, std::string_view name = "x") {
  Digest d;
  d.add("buffer", name, dtype, values.data(), values.size());
  return d.hex();
}
}  // namespace

TEST_CASE("every NaN is one NaN, per type") {
  auto f32 = [](uint32_t bits) { return digest<uint32_t>(DType::f32, {0x3f800000, bits}); };
  for (uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xffc00000U}) CHECK(f32(nan) == f32(0x7fc00000));
  CHECK(f32(0x7f800000) != f32(0x7fc00000));
  auto f16 = [](uint16_t bits) { return digest<uint16_t>(DType::f16, {bits}); };
  CHECK(f16(0xfc01) == f16(0x7fff));
  CHECK(f16(0x7c00) != f16(0x7fff));
  auto bf16 = [](uint16_t bits) { return digest<uint16_t>(DType::bf16, {bits}); };
  CHECK(bf16(0xff81) == bf16(0x7fff));
  CHECK(bf16(0x7c01) != bf16(0x7fff));  // a NaN of f16 is a number of bf16
  auto f8 = [](DType t, uint8_t bits) { return digest<uint8_t>(t, {bits}); };
  CHECK(f8(DType::f8e4m3, 0xff) == f8(DType::f8e4m3, 0x7f));
  CHECK(f8(DType::f8e4m3, 0x7e) != f8(DType::f8e4m3, 0x7f));  // 448: there is no infinity
  CHECK(f8(DType::f8e5m2, 0xfd) == f8(DType::f8e5m2, 0x7f));
  CHECK(f8(DType::f8e5m2, 0x7c) != f8(DType::f8e5m2, 0x7f));
  auto f64 = [](uint64_t bits) { return digest<uint64_t>(DType::f64, {bits}); };
  CHECK(f64(0xfff0000000000001U) == f64(0x7ff8000000000000U));
  auto i32 = [](uint32_t bits) { return digest<uint32_t>(DType::i32, {bits}); };
  CHECK(i32(0x7f800001) != i32(0x7fc00000));
}

TEST_CASE("names, types, shapes and order are part of it") {
  std::set<std::string> seen;
  std::vector<uint32_t> ones(2, 0x3f800000);
  seen.insert(digest(DType::f32, ones));
  seen.insert(digest(DType::f32, ones, "y"));
  seen.insert(digest(DType::i32, ones));
  seen.insert(digest<uint32_t>(DType::f32, {}));
  seen.insert(digest<uint32_t>(DType::f32, {0, 0x3f800000}));
  seen.insert(digest<uint32_t>(DType::f32, {0x80000000, 0x3f800000}));  // -0
  Digest two;
  two.add("buffer", "x", DType::f32, ones.data(), 1);
  two.add("buffer", "x", DType::f32, ones.data() + 1, 1);
  seen.insert(two.hex());
  CHECK(seen.size() == 7);
  for (const std::string& s : seen) CHECK(s.size() == 32);
}

TEST_CASE("arrays of any alignment and of more than one block") {
  std::vector<char> bytes(4 * 10'001 + 1);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  std::vector<uint32_t> aligned(10'001);
  std::memcpy(aligned.data(), bytes.data() + 1, 4 * aligned.size());
  Digest d;
  d.add("buffer", "x", DType::f32, bytes.data() + 1, aligned.size());
  CHECK(d.hex() == digest(DType::f32, aligned));
  aligned.back() ^= 1;
  CHECK(d.hex() != digest(DType::f32, aligned));
}

TEST_CASE("the hash is XXH3_128 of a header and the little-endian values") {
  std::string bytes = "buffer x f32 2\n";
  for (uint32_t v : {0x3f800000U, 0x7fc00000U}) {
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(v >> (8 * i));
  }
  XXH128_hash_t h = XXH3_128bits(bytes.data(), bytes.size());
  CHECK(digest<uint32_t>(DType::f32, {0x3f800000, 0xffffffff}) ==
        fmt::format("{:016x}{:016x}", h.high64, h.low64));
}
