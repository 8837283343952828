// Damaged checkpoints: refused and nothing changed; and whole files of other contents: that, or they
// hold what the step then has. Knows checkpoints.
#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>

#include "runtime/files/safetensors.hpp"
#include "tests/fuzz/damaged_safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/saved_step.hpp"
#include "tests/support/file_faults.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("fuzz: checkpoints") {
  SavedStep saved;
  const std::string path = saved.path();
  const std::string other = path + ".now";
  save_checkpoint(path, saved.step);
  const std::string good = read_bytes(path);
  saved.run();
  uint64_t accepted = 0;
  save_checkpoint(other, saved.step);
  std::string before = read_bytes(other);
  fuzz(300, [&](Rng& rng) {
    write_bytes(path, good);
    bool whole = rng.chance(50);
    if (whole)
      rewrite_otherwise(path, rng);
    else
      write_bytes(path, damaged_safetensors(good, rng));
    const std::string bad = read_bytes(path);
    bool loaded = false;
    try {
      load_checkpoint(path, saved.step);
      loaded = true;
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::usage);
    }
    save_checkpoint(other, saved.step);
    if (!loaded) {
      CHECK(read_bytes(other) == before);
      return;
    }
    ++accepted;
    before = read_bytes(other);
    CHECK((whole || bad == good));
    TensorReader given(path);
    TensorReader has(other);
    CHECK(given.number("index") == has.number("index"));
    for (const auto& [name, array] : has.arrays()) {
      CHECK(has.read(array) == given.read(given.at(name)));
    }
  });
  MESSAGE(accepted << " files were still checkpoints of the step");
}
