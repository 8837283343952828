// Damaged entries of the disk cache: a miss, or what was stored, and never anything else. Knows the
// disk cache.
#include <fstream>

#include <doctest/doctest.h>

#include "runtime/caches/disk_cache.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("fuzz: cache entries") {
  ScratchFolder scratch;
  DiskCache cache(scratch.path() / "cache");
  REQUIRE(cache.problem().empty());
  fuzz(300, [&](Rng& rng) {
    std::string key = "key " + std::to_string(rng.below(4));
    std::string payload(rng.below(300), static_cast<char>(rng.next()));
    cache.clear();
    cache.store(key, payload);
    std::filesystem::path file =
        cache.folder() / (cache.list().at(0).name + std::string(".variant"));
    std::string whole;
    {
      std::ifstream in(file, std::ios::binary);
      whole.assign(std::istreambuf_iterator<char>(in), {});
    }
    std::string bad = damaged(whole, rng);
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bad;
    auto got = cache.load(key);
    CHECK(got.has_value() == (bad == whole));
    if (got) CHECK(*got == payload);
    for (const DiskCache::Entry& e : cache.list()) cache.show(e.name);
    // Whatever lay there, the next store mends it.
    cache.store(key, payload);
    CHECK(cache.load(key) == payload);
  });
}
