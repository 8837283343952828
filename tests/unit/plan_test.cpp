// Results of lowering, and plans that the verifier refuses. Knows ir and compiler.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

KernelPlan plan_of(const Program& program, Form form, const std::vector<Signature>& signatures) {
  return make_variant(optimize(program, signatures), signatures, form).plan;
}

// Gradients of two types; all other buffers have one.
std::vector<Signature> two_signatures(const Program& p) {
  return signatures_of(p, {DType::f16, DType::f32});
}

KernelPlan mixed(Form form) {
  RecipeOptions o{.grad = DTypeSet(DType::f16) | DType::f32,
                  .loss_scale = LossScale::dynamic,
                  .clip = Clip::l2,
                  .zero_grad = true};
  Program p = make_recipe("adamw", o);
  return plan_of(p, form, two_signatures(p));
}

const plan::ArrayUse& use(const KernelPlan& p, const plan::Body& body, std::string_view array) {
  for (const plan::ArrayUse& u : body.arrays) {
    if (p.array(u).text == array) return u;
  }
  throw std::runtime_error("the body does not touch the array");
}

}  // namespace

TEST_CASE("arguments: those of the step, then a row for each group, then one for each tensor") {
  Program p = parse(R"(step @args {
    buffer @w : f32 inout
    arg %a : {f32}
    arg %b : f64
    arg %c : {f64}
    arg %d : i32
    arg %e : <f64>
    %w = load @w : [f32]
    %x = mul %w, %a : [f32]
    store @w, %x
  })");
  ArgLayout args(p.args);
  CHECK(args.step_words == 2);
  CHECK(args.group_words == 2);
  CHECK(args.tensor_words == 1);
  CHECK(args.words(3, 5) == 13);
  CHECK(args.word(1, 0, 3) == 0);
  CHECK(args.word(3, 2, 3) == 1);  // one value for all groups
  CHECK(args.word(0, 0, 3) == 2);
  CHECK(args.word(2, 0, 3) == 3);
  CHECK(args.word(0, 2, 3) == 6);
  CHECK(args.word(4, 0, 3) == 8);
  CHECK(args.word(4, 4, 3) == 12);
  KernelPlan plan = plan_of(p, Form::fused, {{DType::f32}});
  CHECK(plan.args == args);
  CHECK(plan.phases[0].uniform.of(per::group)[0].index == 0);
}

TEST_CASE("signatures share a body where its types are equal") {
  KernelPlan plan = mixed(Form::unfused);
  // The phase that loads the gradient has one body per gradient type; the phase that uses the copy
  // has one.
  REQUIRE(plan.phases[0].bodies.size() == 2);
  CHECK(plan.phases[0].bodies[1].signatures == std::vector<uint32_t>{1});
  REQUIRE(plan.phases[1].bodies.size() == 1);
  CHECK(plan.phases[1].bodies[0].signatures == std::vector<uint32_t>{0, 1});
}

TEST_CASE("arrays of a body: loaded, stored, in part, and again later") {
  KernelPlan plan = mixed(Form::fused);
  const plan::Body& reduce = plan.phases[0].bodies[0];
  CHECK(reduce.arrays.size() == 1);
  CHECK(use(plan, reduce, "@grad").loaded_later);
  const plan::Body& update = plan.phases[1].bodies[0];
  CHECK(use(plan, update, "@grad").dtype == DType::f16);
  CHECK(use(plan, update, "@grad").stored);
  CHECK(!use(plan, update, "@grad").predicated);
  CHECK(!use(plan, update, "@grad").loaded_later);
  CHECK(use(plan, update, "@weight").loaded);
  CHECK(plan.phases[1].guards == plan::Guard::chunk);
  CHECK(plan.phases[1].otherwise.size() == 2);  // zeroes gradients of either type
  CHECK(!use(plan, plan.phases[1].otherwise[0], "@grad").loaded);

  Program p = parse(R"(step @part {
    buffer @w : f32 inout
    %w = load @w : [f32]
    %zero = const 0 : f32
    %some = lt %zero, %w : [bool]
    store @w, %zero if %some
  })");
  KernelPlan part = plan_of(p, Form::fused, {{DType::f32}});
  CHECK(use(part, part.phases[0].bodies[0], "@w").predicated);
}

TEST_CASE("a guard of the whole step skips the launch's work where nothing is left to do") {
  RecipeOptions o{.check = true};
  Program p = make_recipe("sgd", o);
  KernelPlan plan = plan_of(p, Form::fused, signatures_of(p));
  CHECK(plan.phases.back().guards == plan::Guard::launch);
  CHECK(mixed(Form::fused).phases.back().guards == plan::Guard::chunk);
}

TEST_CASE("the plan's verifier refuses what no emitter could write") {
  using Edit = std::function<void(KernelPlan&)>;
  struct Fault {
    const char* name;
    Edit edit;
  };
  const Fault faults[] = {
      {"a value that is not computed", [](auto& p) { p.phases[1].uniform.set(per::step, {}); }},
      {"code behind its use",
       [](auto& p) {
         std::swap(p.phases[1].bodies[0].code.front(), p.phases[1].bodies[0].code.back());
       }},
      {"a type that is not concrete",
       [](auto& p) { p.phases[0].bodies[0].code[0].out = DType::bound; }},
      {"a load of another type", [](auto& p) { p.phases[0].bodies[0].code[0].out = DType::f64; }},
      {"an array that is not said to be loaded",
       [](auto& p) { p.phases[0].bodies[0].arrays[0].loaded = false; }},
      {"arrays out of order",
       [](auto& p) {
         std::swap(p.phases[1].bodies[0].arrays[0], p.phases[1].bodies[0].arrays[1]);
       }},
      {"a signature without a body", [](auto& p) { p.phases[1].bodies.pop_back(); }},
      {"a signature with two bodies",
       [](auto& p) { p.phases[1].bodies[0].signatures.push_back(1); }},
      {"a reduction that nobody makes",
       [](auto& p) { p.phases[0].bodies[0].reductions.pop_back(); }},
      {"a reduction made twice",
       [](auto& p) { p.phases[0].reductions.push_back(p.phases[0].reductions[0]); }},
      {"a result before it is made",
       [](auto& p) { p.phases[0].uniform.set(per::step, p.phases[1].uniform.of(per::step)); }},
      {"another partition", [](auto& p) { p.reductions[0].partition = 5; }},
      {"a write among those of a different granularity",
       [](auto& p) { p.finish.writes[0].at = per::tensor; }},
      {"a guard that skips work", [](auto& p) { p.phases[1].guards = plan::Guard::launch; }},
      {"a name that two things have", [](auto& p) { p.arrays[1].name = p.arrays[0].name; }},
      {"a name that is no word", [](auto& p) { p.arrays[1].name = "b_x.1"; }},
      {"a phase in no kernel", [](auto& p) { p.kernels.back().phase_count = 1; }},
  };
  plan::verify(mixed(Form::fused));
  for (const Fault& f : faults) {
    KernelPlan plan = mixed(Form::fused);
    f.edit(plan);
    CHECK_THROWS_AS_MESSAGE(plan::verify(plan), std::logic_error, f.name);
  }
}

TEST_CASE("stochastic rounding to f32 is refused: of elements bound to it, and of coarser values") {
  Program p = parse(R"(step @chance {
    buffer @w : bf16|f32 inout
    state @seed : i64
    state @s : f32
    state @bits : i32
    %seed = read @seed : i64
    %bits = read @bits : i32
    %s = read @s : f32
    %same = cast_sr %s, %bits : f32
    write @s, %same
    %w = load @w : [@w]
    %x = cast %w : [f32]
    %r = random %seed, %seed, %bits : [i32]
    %y = cast_sr %x, %r : [@w]
    store @w, %y
  })");
  KernelPlan plan = plan_of(p, Form::fused, signatures_of(p, {DType::bf16, DType::f32}));
  auto rounds = [](const std::vector<plan::Inst>& code) {
    return std::any_of(code.begin(), code.end(),
                       [](const plan::Inst& inst) { return inst.op == Op::cast_sr; });
  };
  REQUIRE(plan.phases[0].bodies.size() == 2);
  CHECK(rounds(plan.phases[0].bodies[0].code));
  CHECK(!rounds(plan.phases[0].bodies[1].code));
  CHECK(!rounds(plan.finish.step));
}

TEST_CASE("a scratch array has room for the widest type that its values are bound to") {
  Program p = parse(R"(step @bound {
    buffer @grad : f16|f32 in
    buffer @weight : f32 inout
    stage halve
    %g = load @grad : [@grad]
    %g32 = cast %g : [f32]
    %half = mul %g32, 0.5 : [f32]
    %stored = cast %half : [@grad]
    stage norm
    %d = cast %stored : [f32]
    %sum = reduce_add %d : f32
    stage update
    %w = mul %d, %sum : [f32]
    store @weight, %w
  })");
  for (std::vector<DType> order : {std::vector{DType::f16, DType::f32}, {DType::f32, DType::f16}}) {
    KernelPlan plan = plan_of(p, Form::unfused, signatures_of(p, order));
    auto scratch = std::find_if(plan.arrays.begin(), plan.arrays.end(),
                                [](const plan::Array& a) { return a.scratch(); });
    REQUIRE(scratch != plan.arrays.end());
    CHECK(scratch->max_bytes == 4);
  }
}

TEST_CASE("what belongs to two tables has a name each") {
  Program p = parse(R"(step @tables {
    buffer @w : f32 inout
    table @x : f32 = 0, 1
    table @x_bounds : f32 = 0, 2
    %w = load @w : [f32]
    %a = nearest @x, %w : [i32]
    %b = nearest @x_bounds, %w : [i32]
    %c = add %a, %b : [i32]
    %d = lookup @x, %c : [f32]
    store @w, %d
  })");
  KernelPlan plan = plan_of(p, Form::fused, signatures_of(p));
  std::set<std::string> names;
  for (const plan::Table& t : plan.tables)
    names.insert({t.name, t.bounds_name, t.slopes_name, t.offsets_name});
  CHECK(names.size() == 8);
}

TEST_CASE("the input type of select is that of its values, not of its condition") {
  Program p = parse(R"(step @types {
    buffer @w : f32 inout
    %w = load @w : [f32]
    %up = lt %w, 1 : [bool]
    %new = select %up, 1, %w : [f32]
    store @w, %new
  })");
  KernelPlan plan = plan_of(p, Form::fused, signatures_of(p));
  std::map<Op, DType> inputs;
  for (const plan::Inst& inst : plan.phases[0].bodies[0].code) inputs[inst.op] = inst.in;
  CHECK(inputs.at(Op::lt) == DType::f32);
  CHECK(inputs.at(Op::select) == DType::f32);
}
