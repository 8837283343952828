// The three forms of a classic pipeline: what is in which phase, and what crosses kernels.
#include "compiler/schedule/schedule.hpp"

#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <stepfuse/parser.hpp>

#include "tests/source_dir.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

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

namespace {

// A norm for each group; the step is good if all of them are finite, and none of the tensors counts
// more than a limit. The first rollup needs no phase, the last one needs another's result.
constexpr const char* kRollups = R"(step @rollups {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  state @limit : <f32>
  report @largest_group : f32
  report @limits : f32
  %g = load @grad : [f32]
  %sq = mul %g, %g : [f32]
  %sum = reduce_add %sq : <f32>
  %limit = read @limit : <f32>
  %limits = reduce_add %limit : f32
  %over = lt %limit, %sum : <bool>
  %some_over = reduce_any %over : {bool}
  %group_sum = reduce_add %sum : {f32}
  %counted = cast %some_over : {f32}
  %scaled = mul %group_sum, %counted : {f32}
  %largest = reduce_max %scaled : f32
  %one = const 1 : f32
  %good = lt %largest, %one : bool
  %w = load @weight : [f32]
  %share = div %sum, %group_sum : <f32>
  %d = mul %g, %share : [f32]
  %w1 = sub %w, %d : [f32]
  store @weight, %w1 if %good
  write @largest_group, %largest
  write @limits, %limits
}
)";

Schedule rollups(Form form) {
  Program p = parse(kRollups);
  return make_schedule(p, {.form = form, .signatures = signatures_of(p)});
}

}  // namespace

TEST_CASE("group and tensor values are reduced behind the phase that they depend on") {
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    Schedule s = rollups(form);
    REQUIRE(s.phases.size() == 2);
    CHECK(s.phases[1].rollups.empty());
    const auto& r = s.phases[0].rollups;
    REQUIRE(r.size() == 2);
    CHECK(r[0].from == per::tensor);
    CHECK(r[0].reductions.size() == 3);
    CHECK(r[1].from == per::group);
    CHECK(r[1].reductions.size() == 1);
    CHECK(s.reductions.size() == 5);
  }
}

TEST_CASE(
    "a reduction whose operand another's result is in comes behind it, of one granularity or not") {
  Program p = parse(R"(step @chain {
    buffer @grad : f32 in
    report @most : f32
    report @rest : f32
    %g = load @grad : [f32]
    %sum = reduce_add %g : <f32>
    %group = reduce_add %sum : {f32}
    %share = div %sum, %group : <f32>
    %most = reduce_max %share : f32
    %left = sub %most, %share : <f32>
    %rest = reduce_add %left : f32
    %all = reduce_add %sum : f32
    %both = add %rest, %all : f32
    write @most, %most
    write @rest, %both
  })");
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    Schedule s = make_schedule(p, {.form = form, .signatures = signatures_of(p)});
    const auto& r = s.phases[0].rollups;
    REQUIRE(r.size() == 3);
    for (const Rollup& rollup : r) CHECK(rollup.from == per::tensor);
    CHECK(r[0].reductions.size() == 2);  // of the groups, and of all
    CHECK(r[1].reductions.size() == 1);
    CHECK(r[2].reductions.size() == 1);
  }
}

TEST_CASE("a store that waits for states only waits behind an empty phase") {
  Program p = parse(R"(step @states {
    buffer @weight : f32 inout
    state @decay : <f32>
    %decay = read @decay : <f32>
    %all = reduce_add %decay : f32
    %w = load @weight : [f32]
    %w1 = mul %w, %all : [f32]
    store @weight, %w1
  })");
  for (Form form : {Form::fused, Form::unfused}) {
    Schedule s = make_schedule(p, {.form = form, .signatures = signatures_of(p)});
    REQUIRE(s.phases.size() == 2);
    CHECK(s.phases[0].is_empty());
    CHECK(s.phases[0].rollups.size() == 1);
    CHECK(s.phases[1].body.stores.size() == 1);
  }
}

TEST_CASE("kernels have different names, also where nothing is stored") {
  Program p = parse(R"(step @measure {
    buffer @grad : f32 in
    report @above : f32
    %g = load @grad : [f32]
    %sum = reduce_add %g : f32
    %d = sub %g, %sum : [f32]
    %most = reduce_max %d : f32
    write @above, %most
  })");
  Schedule s = make_schedule(p, {.form = Form::split, .signatures = signatures_of(p)});
  REQUIRE(s.kernels.size() == 2);
  CHECK(s.kernels[0].name != s.kernels[1].name);
}

namespace {

std::string print_of(const std::vector<Phase>& phases, const Program& p) {
  std::string out;
  for (const Phase& phase : phases) {
    out += phase.name + ":";
    for (ValueId r : phase.body.reductions) out += " " + p.names[static_cast<size_t>(r)];
    out += ";";
  }
  return out;
}

// The number of scratch arrays of a step in the unfused form.
size_t unfused_scratch(const std::string& step) {
  Program p = parse(step);
  return make_schedule(p, {.form = Form::unfused, .signatures = signatures_of(p)}).scratch.size();
}

}  // namespace

TEST_CASE("a reduction waits for a phase that loads its arrays anyway") {
  // %w is needed in the last phase only; the second one loads the weight for %u.
  const std::string head = R"(step @waits {
    buffer @grad : f32 in
    buffer @weight : f32 inout
    %g = load @grad : [f32]
    %w = load @weight : [f32]
    %gg = reduce_add %g : f32
    %ww = reduce_add %w : <f32>
    %c = mul %g, %gg : [f32]
)";
  auto phases = [&](const std::string& rest) {
    Program p = parse(head + rest + "}\n");
    Schedule s = make_schedule(p, {.form = Form::fused, .signatures = signatures_of(p)});
    return print_of(s.phases, p);
  };
  const std::string update =
      "%r = div %ww, %uu : <f32>\n%d = mul %c, %r : [f32]\n%n = sub %w, %d : [f32]\n"
      "store @weight, %n\n";
  CHECK(phases("%u = add %c, %w : [f32]\n%uu = reduce_add %u : <f32>\n" + update) ==
        "reduce0: gg;reduce1: ww uu;update:;");
  // Nobody loads the weight in between: the first phase is as good.
  CHECK(phases("%uu = reduce_add %c : <f32>\n" + update) == "reduce0: gg ww;reduce1: uu;update:;");
  // It is needed at once.
  CHECK(phases("%u = add %c, %w : [f32]\n%v = mul %u, %ww : [f32]\n"
               "%uu = reduce_add %v : <f32>\n" +
               update) == "reduce0: gg ww;reduce1: uu;update:;");
  // The first phase makes all that there is, for ranks to exchange.
  CHECK(phases("report @norm : <f32>\nwrite @norm, %ww\n%n = sub %w, %c : [f32]\n"
               "store @weight, %n\n") == "reduce: gg ww;update:;");
}

TEST_CASE("unfused: what was stored in part is read back only for stores of the same part") {
  auto scratch_of = [](const std::string& later) {
    return unfused_scratch(R"(step @parts {
    buffer @grad : f32 in
    buffer @m : f32 inout
    buffer @copy : bf16 out
    report @sum : f32
    stage first
    %g = load @grad : [f32]
    %m_in = load @m : [f32]
    %v = add %m_in, %g : [f32]
    %zero = const 0 : f32
    %p = lt %g, %zero : [bool]
    %q = lt %zero, %g : [bool]
    store @m, %v if %p
    stage second
)" + later + "}\n");
  };
  const std::string copy = "%narrow = cast %v : [bf16]\nstore @copy, %narrow";
  CHECK(scratch_of(copy + " if %p\n%c = const 0 : f32\nwrite @sum, %c\n") == 1);  // %p alone
  CHECK(scratch_of(copy + " if %q\n%c = const 0 : f32\nwrite @sum, %c\n") == 2);
  // A reduction wants all elements.
  CHECK(scratch_of(
            "%s = reduce_add %v : f32\nwrite @sum, %s\n%n = cast %g : [bf16]\nstore @copy, %n\n") ==
        1);
}

TEST_CASE("unfused: a kernel keeps a value per square that it fetches with every row") {
  auto scratch_of = [](const std::string& from, const std::string& type) {
    return unfused_scratch(fmt::format(R"(step @chained {{
    buffer @w : f32 inout
    %w = load @w : [f32]
    %most = reduce_max %w : <f32/128x128>
    stage one
    %a = add {0}, 1 : {1}
    stage two
    %b = mul %a, %a : {1}
    stage three
    %new = mul %w, %b : [f32]
    store @w, %new
}}
)",
                                       from, type));
  };
  CHECK(scratch_of("%w", "[f32]") == 1);
  CHECK(scratch_of("%most", "<f32/128x128>") == 2);
}

TEST_CASE("unfused: only a buffer that every tensor has replaces a scratch array") {
  auto scratch_of = [](const std::string& sizes) {
    return unfused_scratch(R"(step @kept {
    buffer @g : f32 in
    buffer @m : f32 inout)" +
                           sizes + R"(
    buffer @out : f32 out
    %g = load @g : [f32]
    %m = load @m : [f32]
    stage first
    %v = add %m, %g : [f32]
    store @m, %v
    stage second
    %x = mul %v, %v : [f32]
    store @out, %x
}
)");
  };
  CHECK(scratch_of("") == 0);
  CHECK(scratch_of(" below 100") == 1);
}

TEST_CASE(
    "unfused: a store follows the last load of its buffer, and its value is kept until then") {
  auto scratch_of = [](const std::string& later) {
    return unfused_scratch(R"(step @delayed {
    buffer @g : f32 in
    buffer @w : f32 inout
    buffer @out : f32 out
    %g = load @g : [f32]
    %w = load @w : [f32]
    stage first
    %v = add %w, %g : [f32]
    store @w, %v
    stage second
    %x = mul )" + later +
                           R"(, %g : [f32]
    store @out, %x
}
)");
  };
  CHECK(scratch_of("%g") == 0);
  CHECK(scratch_of("%w") == 1);
}
