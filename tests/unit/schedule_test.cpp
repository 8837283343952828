// The three forms of a classic pipeline: what is in which phase, and what crosses kernels.
#include "compiler/schedule.hpp"

#include <fstream>
#include <sstream>

#include <doctest/doctest.h>

#include "ir/parser.hpp"
#include "tests/source_dir.hpp"

using namespace stepfuse;

namespace {
Schedule make(Form form) {
  std::ifstream file(STEPFUSE_SOURCE_DIR "/tests/unit/classic.sf");
  std::stringstream text;
  text << file.rdbuf();
  Program p = parse(text.str(), "classic.sf");
  Signature s = {DType::f16, DType::bf16, DType::f32};
  return make_schedule(p, {.form = form, .signatures = {s}});
}
}  // namespace

TEST_CASE("fused: one kernel, a reduce and an update phase, guarded stores and zeroing apart") {
  Schedule s = make(Form::fused);
  REQUIRE(s.kernels.size() == 1);
  REQUIRE(s.phases.size() == 2);
  CHECK(s.phases[0].body.reductions.size() == 2);
  CHECK(s.phases[0].body.stores.empty());
  CHECK(s.phases[1].body.stores.size() == 3);
  CHECK(s.phases[1].guard != kNoValue);
  CHECK(s.phases[1].otherwise.stores.size() == 1);  // the zeroing
  CHECK(s.phases[1].otherwise.code.empty());        // and it loads nothing
  CHECK(s.scratch.empty());
}

TEST_CASE("split: the same phases, one kernel each") {
  Schedule s = make(Form::split);
  CHECK(s.phases == make(Form::fused).phases);
  CHECK(s.kernels.size() == 2);
}

TEST_CASE("unfused: the classic stages over one scratch array, clipped in place") {
  Schedule s = make(Form::unfused);
  std::vector<std::string> names;
  for (const Phase& p : s.phases) names.push_back(p.name);
  CHECK(names == std::vector<std::string>{"unscale", "norm", "clip", "optimizer", "copy"});
  CHECK(s.kernels.size() == 6);  // and the scale update
  CHECK(s.scratch.size() == 1);
  CHECK(s.phases[2].body.fetches.size() == 1);
  CHECK(s.phases[2].body.keeps.size() == 1);
  // The copy reads the new master back from its buffer.
  REQUIRE(s.phases[4].body.fetches.size() == 1);
  CHECK(s.phases[4].body.fetches[0].buffer == 2);
}
