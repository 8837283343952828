// Hashes everything that a step has computed. Knows the hash.
#include "runtime/saved/digest.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include <stepfuse/ir.hpp>

#include "runtime/files/hash128.hpp"

namespace stepfuse {
namespace {

constexpr size_t kBlock = 4096;  // values; they stay in the first-level cache

// Copies the words. A magnitude above `highest` is a NaN, and all NaNs become one pattern.
template <class Word>
void copy_canonical(const void* from, size_t count, const DTypeInfo& row, Word* to) {
  std::memcpy(to, from, count * sizeof(Word));
  auto magnitude = static_cast<Word>(row.sign() - 1);
  auto highest = static_cast<Word>(row.highest);
  auto nan = static_cast<Word>(row.nan);
  for (size_t i = 0; i < count; ++i) to[i] = (to[i] & magnitude) > highest ? nan : to[i];
}

template <class Word>
void hash_canonical(Hash128& hash, const void* data, uint64_t count, DType dtype) {
  std::array<Word, kBlock> block;
  const char* p = static_cast<const char*>(data);
  while (count > 0) {
    auto n = static_cast<size_t>(std::min<uint64_t>(count, kBlock));
    copy_canonical(p, n, info(dtype), block.data());
    hash.add(block.data(), n * sizeof(Word));
    p += n * sizeof(Word);
    count -= n;
  }
}

}  // namespace

struct Digest::Hash : Hash128 {};

Digest::Digest() : hash_(std::make_unique<Hash>()) {}
Digest::~Digest() = default;

void Digest::add_header(std::string_view kind, std::string_view name, DType dtype, uint64_t count) {
  std::string header = fmt::format("{} {} {} {}\n", kind, name, stepfuse::name(dtype), count);
  hash_->add(header.data(), header.size());
}

void Digest::add(std::string_view kind, std::string_view name, DType dtype, const void* data,
                 uint64_t count) {
  add_header(kind, name, dtype, count);
  if (count == 0) return;
  Hash128& s = *hash_;
  if (!is_float(dtype)) {
    s.add(data, count * size_of(dtype));
    return;
  }
  switch (size_of(dtype)) {
    case 1:
      return hash_canonical<uint8_t>(s, data, count, dtype);
    case 2:
      return hash_canonical<uint16_t>(s, data, count, dtype);
    case 4:
      return hash_canonical<uint32_t>(s, data, count, dtype);
    default:
      return hash_canonical<uint64_t>(s, data, count, dtype);
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

std::string Digest::hex() const { return hash_->hex(); }

}  // namespace stepfuse
