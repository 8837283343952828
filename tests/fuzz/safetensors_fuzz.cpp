// Damaged safetensors files are refused, or have consecutive arrays that fill the file, in no more
// memory than the file. Knows the reader.
#include <algorithm>
#include <cstring>
#include <optional>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>

#include "runtime/files/safetensors.hpp"
#include "tests/fuzz/damaged_safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/saved_step.hpp"
#include "tests/support/file_faults.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

__extension__ using Wide = unsigned __int128;

// The reader's promises for each accepted file.
void check_arrays(const TensorReader& file, const std::string& bytes) {
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof length);
  std::vector<std::pair<uint64_t, uint64_t>> places;
  for (const auto& [name, array] : file.arrays()) {
    Wide size = size_of(array.dtype);
    for (uint64_t d : array.shape) size *= d;
    CHECK(size == array.bytes);
    CHECK(file.read(array) == bytes.substr(array.begin, array.bytes));
    places.emplace_back(array.begin, array.begin + array.bytes);
  }
  std::sort(places.begin(), places.end());
  uint64_t at = sizeof length + length;
  for (auto [begin, end] : places) {
    CHECK(begin == at);
    at = end;
  }
  CHECK(at == bytes.size());
}

}  // namespace

TEST_CASE("fuzz: safetensors") {
  SavedStep saved;
  const std::string path = saved.path();
  save_checkpoint(path, saved.step);
  const std::string good = read_bytes(path);
  fuzz(4000, [&](Rng& rng) {
    const std::string bad = damaged_safetensors(good, rng);
    write_bytes(path, bad);
    try {
      LittleMemory room(size_t{4} << 20);
      TensorReader file(path);
      check_arrays(file, bad);
      file.check_digest();
      CHECK(bad == good);
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::usage);
      CHECK(std::string_view(e.what()).find('\x1b') == std::string_view::npos);
    }
  });
}
