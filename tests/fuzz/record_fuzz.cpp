// Damaged records, and whole ones of steps that never were: an error, or a step that runs. Knows
// records.
#include <doctest/doctest.h>

#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"
#include "tests/fuzz/damaged_safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/saved_step.hpp"
#include "tests/support/file_faults.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

TEST_CASE("fuzz: records") {
  SavedStep saved;
  const std::string path = saved.path();
  save_record(path, capture(Internals::of(saved.step), saved.step.make_args()));
  const std::string good = read_bytes(path);
  uint64_t accepted = 0;
  fuzz(300, [&](Rng& rng) {
    write_bytes(path, good);
    if (rng.chance(80))
      rewrite_otherwise(path, rng);
    else
      write_bytes(path, damaged_safetensors(good, rng));
    try {
      StepRecord record = load_record(path);
      first_nonfinite(record);
      StepRecord after = replay(record, Device::interpreter(), record.form);
      CHECK(!first_difference(after, after));
      ++accepted;
    } catch (const Error&) {
      // A reason, whichever: a text that is no program, or a step that cannot be run.
    }
  });
  MESSAGE(accepted << " files were still records of a step");
}
