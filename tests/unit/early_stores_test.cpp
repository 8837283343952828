// Which stores the fused form makes before its last phase.
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>

#include "compiler/schedule/schedule.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// @a follows the gradient; its norm scales what @w takes of it: 28 bytes with @a's store last, 24
// with it first.
Schedule make(std::string_view store_a, std::string_view w1, std::string_view store_w,
              Form form = Form::fused) {
  Program p = parse(fmt::format(R"(step @follows {{
    buffer @g : f32 in
    buffer @a : f32 inout
    buffer @w : f32 inout
    state @go : bool
    %go = read @go : bool
    %g = load @g : [f32]
    %a = load @a : [f32]
    %a1 = fma %a, 0.5, %g : [f32]
    %up = lt %a, %g : [bool]
    %square = mul %a1, %a1 : [f32]
    %sum = reduce_add %square : f32
    %w = load @w : [f32]
    %d = mul {}, %sum : [f32]
    %w1 = sub %w, %d : [f32]
    store @a, {}
    store @w, {}
  }})",
                                w1, store_a, store_w));
  return make_schedule(p, {.form = form, .signatures = signatures_of(p)});
}

size_t first_stores(const Schedule& s) {
  REQUIRE(s.phases.size() == 2);
  return s.phases[0].body.stores.size();
}

}  // namespace

TEST_CASE("a value that is stored anyway is read back where that moves less") {
  Schedule s = make("%a1", "%a1", "%w1");
  CHECK(first_stores(s) == 1);
  REQUIRE(s.phases[1].body.fetches.size() == 1);
  CHECK(s.phases[1].body.fetches[0].buffer == 1);
  CHECK(s.scratch.empty());
  CHECK(s.phases[0].name == "reduce");
  CHECK(s.phases[1].name == "update");
  CHECK(first_stores(make("%a1", "%a1", "%w1", Form::split)) == 0);
}

TEST_CASE("a store waits for who needs what was there before, and where it saves nothing") {
  CHECK(first_stores(make("%a1", "%a", "%w1")) == 0);
  CHECK(first_stores(make("%square", "%a1", "%w1")) == 0);
  CHECK(first_stores(make("%g", "%g", "%w1")) == 0);
}

TEST_CASE("what a predicate may have left undone is read back behind the same guard only") {
  Schedule s = make("%a1 if %go", "%a1", "%w1 if %go");
  CHECK(first_stores(s) == 1);
  CHECK(s.phases[0].otherwise.stores.empty());
  CHECK(s.phases[0].otherwise.reductions.size() == 1);
  CHECK(s.phases[1].otherwise.empty());
  CHECK(first_stores(make("%a1 if %go", "%a1", "%w1")) == 0);
  CHECK(first_stores(make("%a1 if %up", "%a1", "%w1 if %go")) == 0);
  CHECK(first_stores(make("%a1", "%a1", "%w1 if %go")) == 1);
}
