// Runs seeds and damages bytes. Knows doctest, the environment and the seeded generator.
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <doctest/doctest.h>

namespace stepfuse::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint64_t kShare = 10;  // sanitized code is slow, and finds other things
#else
constexpr uint64_t kShare = 1;
#endif

uint64_t edge(Rng& rng) {
  uint64_t near = rng.below(3);
  int bits = static_cast<int>(rng.pick({7, 8, 15, 16, 31, 32, 47, 62, 63}));
  switch (rng.below(4)) {
    case 0:
      return near;
    case 1:
      return 0 - near;
    default:
      return (uint64_t{1} << bits) - 1 + near;
  }
}

void damage_once(std::string& bytes, Rng& rng) {
  size_t at = bytes.empty() ? 0 : rng.below(bytes.size());
  size_t left = bytes.size() - at;
  size_t length = std::min<size_t>(left, 1 + rng.below(rng.chance(80) ? 8 : 400));
  switch (rng.below(8)) {
    case 0:
    case 1:
      if (left > 0) bytes[at] = static_cast<char>(bytes[at] ^ (1 << rng.below(8)));
      break;
    case 2:
      for (size_t i = 0; i < length; ++i) bytes[at + i] = static_cast<char>(rng.next());
      break;
    case 3: {
      uint64_t value = edge(rng);
      std::memcpy(bytes.data() + at, &value, std::min<size_t>(left, rng.pick({1, 2, 4, 8})));
      break;
    }
    case 4:
      bytes.erase(at, length);
      break;
    case 5:
      bytes.insert(at, bytes.substr(at, length));
      break;
    case 6: {
      std::string part = bytes.substr(at, length);
      bytes.erase(at, length);
      bytes.insert(rng.below(bytes.size() + 1), part);
      break;
    }
    default:
      if (rng.chance(30))
        bytes.resize(at);
      else
        bytes.insert(at, 1, static_cast<char>(rng.next()));
  }
}

}  // namespace

uint64_t fuzz(uint64_t count, const std::function<void(Rng&)>& one) {
  uint64_t first = 1;
  count = std::max<uint64_t>(1, count / kShare);
  if (const char* text = std::getenv("STEPFUSE_SEEDS")) {
    char* end = nullptr;
    first = std::strtoull(text, &end, 10);
    count = *end == ':' ? std::strtoull(end + 1, nullptr, 10) : 1;
  }
  for (uint64_t seed = first; seed < first + count; ++seed) {
    INFO("replay: STEPFUSE_SEEDS=", seed, ":1");
    Rng rng(seed);
    try {
      one(rng);
    } catch (const std::exception& e) {
      FAIL_CHECK("left the fuzzer: ", std::string(e.what()));
    }
  }
  return count;
}

std::string damaged(std::string bytes, Rng& rng) {
  for (int n = rng.between(1, 4); n > 0; --n) damage_once(bytes, rng);
  return bytes;
}

}  // namespace stepfuse::testing
