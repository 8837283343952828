// Buffers that exist only in tensors of some sizes: their text, their meaning, and the kernels for
// each class.
#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/format.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>
#include <stepfuse/recipes.hpp>

#include "compiler/passes/pass_manager.hpp"
#include "compiler/variant.hpp"
#include "ir/program/verifier.hpp"
#include "ir/semantics/interpreter.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/signatures.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr const char* kEither = R"(step @either {
  buffer @small : f32 inout = 0 below 100
  buffer @large : u8 inout = 0 from 100
  buffer @some : bf16 inout from 10 below 200
  buffer @sum : f32 out
  %s = load @small : [f32]
  %code = load @large : [u8]
  %wide = cast %code : [i32]
  %l = cast %wide : [f32]
  %n = element_count : <i64>
  %limit = const 100 : i64
  %is_small = lt %n, %limit : <bool>
  %x = select %is_small, %s, %l : [f32]
  %some16 = load @some : [bf16]
  %some32 = cast %some16 : [f32]
  %sum = add %x, %some32 : [f32]
  store @sum, %sum
  store @small, %sum
  %i = cast %sum : [i32]
  %next = cast %i : [u8]
  store @large, %next
}
)";

std::string with_sizes(const std::string& sizes) {
  return "step @t {\n  buffer @w : f32 inout " + sizes +
         "\n  %w = load @w : [f32]\n  store @w, %w\n}\n";
}

// One tensor of `size` elements, part of one with `full`, filled with 2.0 or 3.
struct One {
  std::vector<float> small, sum;
  std::vector<uint8_t> large;
  std::vector<uint16_t> some;
  explicit One(uint64_t size, uint64_t full = 0)
      : small(size, 2.0F), sum(size), large(size, 3), some(size, 0x4080) {
    Program p = parse(kEither);
    StepData data;
    data.tensors.push_back({.size = size, .full_size = full, .data = {}, .dtypes = {}});
    StepTensor& t = data.tensors[0];
    t.dtypes = of_size(p, t.element_count(), signature_of(p));
    void* arrays[] = {small.data(), large.data(), some.data(), sum.data()};
    for (size_t b = 0; b < 4; ++b) {
      t.data.push_back(t.dtypes[b] == DType::absent ? nullptr : arrays[b]);
    }
    interpret(p, data);
  }
};

KernelPlan plan_of(const Program& p, Form form = Form::fused) {
  std::vector<Signature> signatures = signatures_of(p);
  return make_variant(optimize(p, signatures), signatures, form).plan;
}

std::vector<std::string> arrays_of(const KernelPlan& plan, const plan::Body& body) {
  std::vector<std::string> names;
  for (const plan::ArrayUse& use : body.arrays) names.push_back(plan.array(use).text);
  return names;
}
bool computes(const plan::Body& body, Op op) {
  return std::any_of(body.code.begin(), body.code.end(),
                     [&](const plan::Inst& inst) { return inst.op == op; });
}

// True if the body tests the tensor's class for each element.
bool asks_for_size(const KernelPlan& plan, const plan::Body& body) {
  return std::any_of(body.code.begin(), body.code.end(), [&](const plan::Inst& inst) {
    return inst.op == Op::select && plan[inst.operands[0]].at == per::tensor;
  });
}

}  // namespace

TEST_CASE("from and below are printed as they are written") {
  Program p = parse(kEither);
  CHECK(print(p) == kEither);
  CHECK(p.buffers[0].below == 100);
  CHECK(p.buffers[0].from == 0);
  CHECK(p.buffers[1].from == 100);
  CHECK(p.buffers[2].is_of(10));
  CHECK(p.buffers[2].is_of(199));
  CHECK_FALSE(p.buffers[2].is_of(9));
  CHECK_FALSE(p.buffers[2].is_of(200));
  CHECK_FALSE(p.buffers[1].is_of_all());
  CHECK(p.buffers[3].is_of_all());
  CHECK(tensor_classes(p) == std::vector<uint64_t>{0, 10, 100, 200});
  for (const char* wrong : {"below 0", "below -1", "from x", "below 1.5",
                            "below 18446744073709551615", "below 99999999999999999999"}) {
    CHECK(message_of([&] {
            parse(with_sizes(wrong));
          }).find("is not a count of elements, which starts at 1") != std::string::npos);
  }
  CHECK(message_of([&] { parse(with_sizes("below")); }).find("how many elements a tensor has") !=
        std::string::npos);
}

TEST_CASE("a buffer of some tensors has one type, some sizes, and no copy in a tensor without it") {
  auto refused = [](const std::string& text, const char* reason) {
    std::string message = message_of([&] { parse(text); });
    CHECK_MESSAGE(message.find(reason) != std::string::npos, message);
    CHECK(message.find("[V13]") != std::string::npos);
  };
  refused(with_sizes("from 20 below 20"), "no tensor has buffer");
  refused(R"(step @t {
  buffer @w : f16|f32 inout below 20
  %w = load @w : [@w]
  store @w, %w
})",
          "give it one storage type");
  auto copies = [](const char* from, const char* to) {
    return std::string("step @t {\n  buffer @w : f32 inout ") + from +
           "\n  buffer @master : f32 inout = @w " + to +
           "\n  %w = load @w : [f32]\n  store @master, %w\n}\n";
  };
  refused(copies("below 20", ""), "which not all of its tensors have");
  refused(copies("from 20", "from 19"), "which not all of its tensors have");
  CHECK_NOTHROW(parse(copies("below 20", "below 19")));
  CHECK_NOTHROW(parse(copies("", "from 19")));
}

TEST_CASE("of what a tensor has not, zeros are loaded and nothing is stored") {
  One tiny(5);
  CHECK(tiny.sum == std::vector<float>(5, 2.0F));  // and 0 of @some
  CHECK(tiny.small == tiny.sum);
  One small(99);
  CHECK(small.sum == std::vector<float>(99, 6.0F));
  One large(100);
  CHECK(large.sum == std::vector<float>(100, 7.0F));
  CHECK(large.large == std::vector<uint8_t>(100, 7));
  CHECK(large.small == std::vector<float>(100, 2.0F));
  One huge(201);
  CHECK(huge.sum == std::vector<float>(201, 3.0F));
  One shard(5, 100);
  CHECK(shard.sum == std::vector<float>(5, 7.0F));
}

TEST_CASE("a signature implies a range of sizes") {
  using Range = std::pair<uint64_t, uint64_t>;
  auto sizes = [](const std::string& text, uint64_t elements) {
    Program p = parse(text);
    TensorSizes s = sizes_of(p, of_size(p, elements, signature_of(p)));
    return Range(s.from, s.below);
  };
  constexpr uint64_t kAny = Buffer::kAnySize;
  CHECK(sizes(kEither, 0) ==
        Range(0, 100));  // @some has two ends: a tensor without it lies before or after
  CHECK(sizes(kEither, 50) == Range(10, 100));
  CHECK(sizes(kEither, 150) == Range(100, 200));
  CHECK(sizes(kEither, 500) == Range(100, kAny));
  CHECK(sizes(with_sizes("below 20"), 19) == Range(0, 20));
  CHECK(sizes(with_sizes("below 20"), 20) == Range(20, kAny));
  CHECK(sizes(with_sizes("from 20"), 19) == Range(0, 20));
  CHECK(sizes(with_sizes("from 20"), 20) == Range(20, kAny));
}

TEST_CASE("kernels know of each tensor which buffers it has, and compute nothing for the others") {
  RecipeOptions o;
  set_option(o, "moments", "exp_avg=dyn8");
  set_option(o, "moments-below", "4096");
  Program p = make_recipe("adamw", o);
  for (Form form : {Form::fused, Form::unfused}) {
    KernelPlan plan = plan_of(p, form);
    CHECK(plan.signatures.size() == 2);
    const plan::Phase& update = plan.phases.back();
    REQUIRE(update.bodies.size() == 2);
    const plan::Body& small = update.bodies[0];
    const plan::Body& large = update.bodies[1];
    CHECK(small.unit == 1);
    CHECK(large.unit == 256);
    for (const plan::Body* body : {&small, &large}) {
      CHECK_FALSE(asks_for_size(plan, *body));
      std::vector<std::string> arrays = arrays_of(plan, *body);
      auto has = [&](const char* name) {
        return std::find(arrays.begin(), arrays.end(), name) != arrays.end();
      };
      CHECK(has("@exp_avg") == (body == &small));
      CHECK(has("@exp_avg.dyn8.code") == (body == &large));
      CHECK(has("@exp_avg.dyn8.scale") == (body == &large));
      CHECK(has("@exp_avg_sq"));
    }
    CHECK_FALSE(computes(small, Op::nearest));
    CHECK(computes(large, Op::nearest));
    for (const plan::Inst& inst : update.uniform.of(per::tensor))
      CHECK(inst.op != Op::element_count);
  }
}

TEST_CASE("what only some tensors keep is not read back in place of computing it") {
  // LAMB stores its moments before its norms are known, and reads them back afterwards.
  auto stores_early = [](const RecipeOptions& o) {
    KernelPlan plan = plan_of(make_recipe("lamb", o));
    for (const plan::ArrayUse& use : plan.phases.front().bodies[0].arrays) {
      if (use.stored && plan.array(use).text == "@exp_avg") return true;
    }
    return false;
  };
  RecipeOptions o;
  CHECK(stores_early(o));
  set_option(o, "moments", "fp8");
  o.moments_below = 4096;
  CHECK_FALSE(stores_early(o));
}

TEST_CASE("a format may begin at a size, in several steps") {
  Program p = make_recipe("lion", {});
  Program two = with_format(with_format(p, "exp_avg", built_in_format("dyn8"), 4096), "exp_avg",
                            built_in_format("dyn4"), 100);
  auto sizes = [&](const char* buffer) {
    const Buffer& b = two.buffers[static_cast<size_t>(two.find_buffer(buffer))];
    return std::pair(b.from, b.below);
  };
  CHECK(sizes("exp_avg") == std::pair<uint64_t, uint64_t>(0, 100));
  CHECK(sizes("exp_avg.dyn4.scale") == std::pair<uint64_t, uint64_t>(100, 4096));
  CHECK(sizes("exp_avg.dyn8.code") == std::pair<uint64_t, uint64_t>(4096, Buffer::kAnySize));
  CHECK(print(parse(print(two))) == print(two));
  KernelPlan plan = plan_of(two);
  CHECK(plan.signatures.size() == 3);
  for (const plan::Body& body : plan.phases.back().bodies) CHECK_FALSE(asks_for_size(plan, body));
}

TEST_CASE("the option says from how many elements on a format is, and asks for one") {
  RecipeOptions o;
  CHECK_THROWS_WITH_AS(set_option(o, "moments-below", "4k"),
                       doctest::Contains("'4k' is not a number of elements"), Error);
  o.moments_below = 4096;
  CHECK_THROWS_WITH_AS(make_recipe("adamw", o), doctest::Contains("add a format, as in"), Error);
  set_option(o, "moments", "bf16");
  CHECK_THROWS_WITH_AS(make_recipe("adamw", o), doctest::Contains("add a format, as in"), Error);
}
