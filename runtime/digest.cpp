// One 128-bit hash over what a step left behind. Knows xxHash.
#include "runtime/digest.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace stepfuse {
namespace {

constexpr size_t kBlock = 4096;  // values: stays in the first-level cache

// Copies with every NaN replaced; `exponent` are the bits of infinity, `nan` the one pattern.
template <class Word>
void copy_canonical(const void* from, size_t count, Word exponent, Word nan, Word* to) {
  std::memcpy(to, from, count * sizeof(Word));
  constexpr Word kMagnitude = static_cast<Word>(~Word{0}) >> 1;
  for (size_t i = 0; i < count; ++i) to[i] = (to[i] & kMagnitude) > exponent ? nan : to[i];
}

template <class Word>
void hash_canonical(XXH3_state_t* state, const void* data, uint64_t count, DType dtype,
                    Word exponent) {
  std::array<Word, kBlock> block;
  auto nan = static_cast<Word>(canonical_nan({static_cast<uint64_t>(exponent) + 1}, dtype).raw);
  const char* p = static_cast<const char*>(data);
  while (count > 0) {
    auto n = static_cast<size_t>(std::min<uint64_t>(count, kBlock));
    copy_canonical(p, n, exponent, nan, block.data());
    XXH3_128bits_update(state, block.data(), n * sizeof(Word));
    p += n * sizeof(Word);
    count -= n;
  }
}

}  // namespace

// The state wants 64-byte alignment, which its own allocation function gives.
struct Digest::Hash {
  Hash() : state(XXH3_createState()) { XXH3_128bits_reset(state); }
  ~Hash() { XXH3_freeState(state); }
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  XXH3_state_t* state;
};

Digest::Digest() : hash_(std::make_unique<Hash>()) {}
Digest::~Digest() = default;

void Digest::add_header(std::string_view kind, std::string_view name, DType dtype, uint64_t count) {
  std::string header = fmt::format("{} {} {} {}\n", kind, name, stepfuse::name(dtype), count);
  XXH3_128bits_update(hash_->state, header.data(), header.size());
}

void Digest::add(std::string_view kind, std::string_view name, DType dtype, const void* data,
                 uint64_t count) {
  add_header(kind, name, dtype, count);
  if (count == 0) return;
  XXH3_state_t* s = hash_->state;
  switch (dtype) {
    case DType::f16:
      return hash_canonical<uint16_t>(s, data, count, dtype, 0x7c00);
    case DType::bf16:
      return hash_canonical<uint16_t>(s, data, count, dtype, 0x7f80);
    case DType::f32:
      return hash_canonical<uint32_t>(s, data, count, dtype, 0x7f800000U);
    case DType::f64:
      return hash_canonical<uint64_t>(s, data, count, dtype, 0x7ff0000000000000U);
    default:
      XXH3_128bits_update(s, data, count * size_of(dtype));
  }
}

void Digest::add_states(const Step& step) {
  for (const State& state : step.program().states) {
    std::vector<Bits> values = step.read_state(state.name);
    size_t bytes = size_of(state.type.dtype);
    std::vector<char> packed(values.size() * bytes);
    for (size_t i = 0; i < values.size(); ++i) {
      store_bits(&packed[i * bytes], state.type.dtype, values[i]);
    }
    add("state", state.name, state.type.dtype, packed.data(), values.size());
  }
}

std::string Digest::hex() const {
  XXH128_hash_t h = XXH3_128bits_digest(hash_->state);
  return fmt::format("{:016x}{:016x}", h.high64, h.low64);
}

}  // namespace stepfuse
