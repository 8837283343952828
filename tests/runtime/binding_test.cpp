// Tensors that a step refuses: wrong, missing, null, misaligned, overlapping and overflowing. Each
// gives a clear error, and nothing is written.
#include <cmath>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

#include "tests/support/messages.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr const char* kSgd = R"(step @sgd {
  buffer @grad : f32 in
  buffer @weight : f32 inout
  buffer @hint : f32 in
  arg %lr : f32 = 0.5
  %g = load @grad : [f32]
  %w = load @weight : [f32]
  %h = load @hint : [f32]
  %d = mul %g, %lr : [f32]
  %w1 = sub %w, %d : [f32]
  %w2 = add %w1, %h : [f32]
  store @weight, %w2
})";

// Two tensors of 4 elements on the interpreter, with everything bound.
struct Fixture {
  std::vector<float> memory = std::vector<float>(64, 1.0F);
  float* at(size_t i) { return memory.data() + i; }
  std::vector<void*> weights = {at(0), at(4)};
  std::vector<void*> hints = {at(8), at(8)};
  std::vector<void*> grads = {at(16), at(20)};
  Step step = make();

  static Step make() {
    Layout layout;
    layout.add({.name = "a", .elements = 4}).add({.name = "b", .elements = 4});
    return Step(parse(kSgd), layout, Device::interpreter());
  }
  void bind() {
    step.bind_raw("weight", weights);
    step.bind_raw("hint", hints);
  }
  void run() {
    step.prepare();
    step.run(grads, step.make_args());
  }
};

}  // namespace

TEST_CASE("a bound step runs; read-only arrays may alias") {
  Fixture f;
  f.bind();
  f.run();
  CHECK(f.memory[0] == 1.5F);
  CHECK(f.memory[7] == 1.5F);
  CHECK(f.memory[8] == 1.0F);
}

TEST_CASE("missing, unknown and miscounted bindings") {
  Fixture f;
  f.step.bind_raw("weight", f.weights);
  CHECK(has(message_of(ErrorKind::bind, [&] { f.run(); }), "@hint is not bound"));
  CHECK(has(message_of(ErrorKind::bind, [&] { f.step.bind_raw("wieght", f.weights); }),
            "has no buffer 'wieght'; it has @grad @weight @hint; did you mean 'weight'?"));
  std::vector<void*> one = {f.at(0)};
  CHECK(has(message_of(ErrorKind::bind, [&] { f.step.bind_raw("weight", one); }), "2 tensors"));
  CHECK(has(message_of(ErrorKind::bind, [&] { f.step.bind_raw("grad", f.grads); }), "run()"));
  f.bind();
  f.step.prepare();
  CHECK(has(message_of(ErrorKind::bind, [&] { f.step.run(one, f.step.make_args()); }),
            "run() was given 1 gradient; the layout has "));
  CHECK(f.memory == std::vector<float>(64, 1.0F));
}

TEST_CASE("null, misaligned and overlapping arrays") {
  Fixture f;
  f.weights[1] = nullptr;
  CHECK(has(message_of(ErrorKind::bind, [&] { f.bind(); }), "@weight of tensor 1 'b' is null"));
  f.weights[1] = reinterpret_cast<char*>(f.at(4)) + 2;
  CHECK(has(message_of(ErrorKind::bind, [&] { f.bind(); }), "not aligned to its 4-byte"));
  // its four elements end beyond the address space
  f.weights[1] = reinterpret_cast<void*>(~uintptr_t{0} - 11);
  CHECK(has(message_of(ErrorKind::bind, [&] { f.bind(); }), "reaches beyond the address space"));
  f.weights[1] = f.at(3);
  f.bind();
  CHECK(has(message_of(ErrorKind::bind, [&] { f.run(); }), "overlaps @weight of tensor 0 'a'"));
  f.weights[1] = f.at(4);
  f.hints[0] = f.at(6);
  f.bind();
  CHECK(has(message_of(ErrorKind::bind, [&] { f.run(); }), "@hint of tensor 0 'a' overlaps"));
  f.hints[0] = f.at(8);
  f.grads[0] = f.at(2);
  f.bind();
  CHECK(has(message_of(ErrorKind::bind, [&] { f.run(); }), "@grad of tensor 0 'a' overlaps"));
  CHECK(f.memory == std::vector<float>(64, 1.0F));
}

TEST_CASE("gradients may lie anywhere that is not written, and a step says where they may not") {
  constexpr size_t kTensors = 5;
  std::vector<float> memory(64, 1.0F);
  Layout layout;
  std::vector<void*> weights;
  for (size_t t = 0; t < kTensors; ++t) {
    layout.add({.name = std::string(1, static_cast<char>('a' + t)), .elements = 4});
    weights.push_back(
        &memory[12 * ((3 * t) % kTensors)]);  // with a gap of two between them, in any order
  }
  Step step(parse(kSgd), layout, Device::interpreter());
  step.bind_raw("weight", weights);
  step.bind_raw("hint", std::vector<void*>(kTensors, &memory[4]));
  step.prepare();
  Args args = step.make_args();
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<void*> grads;
    bool overlap = false;
    for (size_t t = 0; t < kTensors; ++t) {
      size_t at =
          random() % 10 == 0 ? random() % 57 : 12 * (random() % kTensors) + 4 + random() % 5;
      grads.push_back(&memory[at]);
      overlap = overlap || at % 12 < 4 || at % 12 > 8;
    }
    refused += overlap ? 1 : 0;
    if (overlap) {
      CHECK(has(message_of(ErrorKind::bind, [&] { step.run(grads, args); }), "overlaps"));
    } else {
      step.run(grads, args);
    }
  }
  CHECK(refused > 200);
  CHECK(refused < 1800);
}

TEST_CASE("arrays that are bound later do not overlap the gradients of the last run") {
  Fixture f;
  f.bind();
  f.run();
  std::vector<float> before = f.memory;
  f.weights[1] = f.grads[0];
  f.step.bind_raw("weight", f.weights);
  CHECK(has(message_of(ErrorKind::bind, [&] { f.run(); }), "@grad of tensor 0 'a' overlaps"));
  CHECK(f.memory == before);
  // Gradients may change places with weights.
  f.grads[0] = f.at(4);
  f.run();
  CHECK(f.memory != before);
  // A gradient that the step sets to zero must not overlap arrays that it reads either.
  Layout layout;
  layout.add({.elements = 4});
  Step step(parse(R"(step @consume {
  buffer @grad : f32 inout
  buffer @weight : f32 inout
  buffer @hint : f32 in
  %g = load @grad : [f32]
  %h = load @hint : [f32]
  %sum = add %g, %h : [f32]
  store @weight, %sum
  %zero = const 0 : f32
  store @grad, %zero
})"),
            layout, Device::interpreter());
  step.bind_raw("weight", std::vector<void*>{f.at(0)});
  step.bind_raw("hint", std::vector<void*>{f.at(8)});
  step.prepare();
  std::vector<void*> gradient = {f.at(16)};
  step.run(gradient, step.make_args());
  step.bind_raw("hint", gradient);
  CHECK(
      has(message_of(ErrorKind::bind, [&] { step.run(gradient, step.make_args()); }), "overlaps"));
}

TEST_CASE("a gradient's name is that of a buffer") {
  Layout layout;
  layout.add({.elements = 4});
  auto message = [&](const char* name) {
    return message_of(ErrorKind::usage, [&] {
      Step(parse(kSgd), layout, Device::interpreter(), {.gradient = name});
    });
  };
  CHECK(message("gard") ==
        "StepOptions::gradient: step @sgd has no buffer @gard; did you mean 'grad'?");
  Step(parse(kSgd), layout, Device::interpreter(), {.gradient = ""});  // run() receives none
}

TEST_CASE("a gradient may be missing, from the first step on") {
  Fixture f;
  f.bind();
  f.grads[1] = nullptr;
  f.run();
  CHECK(f.memory[0] == 1.5F);
  CHECK(f.memory[4] == 1.0F);
  f.grads[1] = f.at(20);
  f.grads[0] = nullptr;
  f.step.run(f.grads, f.step.make_args());
  CHECK(f.memory[0] == 1.5F);
  CHECK(f.memory[4] == 1.5F);
}

TEST_CASE("a tensor given twice is updated once") {
  Fixture f;
  f.weights[1] = f.weights[0];
  f.grads[1] = f.grads[0];
  f.bind();
  f.run();
  CHECK(f.memory[0] == 1.5F);
  f.grads[1] = f.at(24);
  CHECK(has(message_of(ErrorKind::bind, [&] { f.step.run(f.grads, f.step.make_args()); }),
            "their gradients differ"));
}

TEST_CASE(
    "a gradient that the step zeroes is apart from all that the step reads, and from others") {
  Program p = parse(R"(step @zeroing {
    buffer @grad : f32 inout
    buffer @weight : f32 inout
    buffer @hint : f32 in
    %g = load @grad : [f32]
    %w = load @weight : [f32]
    %h = load @hint : [f32]
    %gh = mul %g, %h : [f32]
    %w1 = sub %w, %gh : [f32]
    %zero = const 0 : f32
    store @weight, %w1
    store @grad, %zero
  })");
  Layout layout;
  layout.add({.name = "a", .elements = 4}).add({.name = "b", .elements = 4});
  std::vector<float> memory(64, 1.0F);
  auto at = [&](size_t i) { return memory.data() + i; };
  Step step(p, layout, Device::interpreter());
  step.bind_raw("weight", std::vector<float*>{at(0), at(4)});
  step.bind_raw("hint", std::vector<float*>{at(20), at(12)});  // not in ascending order
  step.prepare();
  auto run = [&](size_t a, size_t b) {
    step.run(std::vector<float*>{at(a), at(b)}, step.make_args());
  };
  auto refused = [&](size_t a, size_t b) {
    return message_of(ErrorKind::bind, [&] { run(a, b); });
  };
  for (size_t near : {17, 20, 23}) {
    CHECK(has(refused(40, near), "@grad of tensor 1 'b' overlaps @hint of tensor 0 'a'"));
  }
  for (size_t near : {9, 12, 15}) {
    CHECK(has(refused(near, 40), "@grad of tensor 0 'a' overlaps @hint of tensor 1 'b'"));
  }
  for (size_t near : {37, 43}) CHECK(has(refused(40, near), "overlaps @grad of tensor"));
  CHECK(memory == std::vector<float>(64, 1.0F));
  run(16, 8);  // adjacent to both
  CHECK(memory[16] == 0);
  CHECK(memory[20] == 1);
  run(24, 40);
  CHECK(has(refused(24, 27), "overlaps @grad of tensor 0 'a'"));  // also with an array that stays
}

TEST_CASE("tied tensors are laid out alike, or told what differs") {
  Program p = parse(R"(step @tied {
    buffer @grad : f32 in
    buffer @weight : f32|f16 inout
    state @counted : <bool> = true
    state @updated : <bool> = true
    %g = load @grad : [f32]
    %c = read @counted : <bool>
    %u = read @updated : <bool>
    %both = and %c, %u : <bool>
    %s = cast %g : [@weight]
    store @weight, %s if %both
  })");
  struct Case {
    const char* what;
    TensorSpec other;
  };
  const TensorSpec first{.name = "a", .elements = 4, .dtypes = {{"weight", DType::f32}}};
  auto with = [&](auto change) {
    TensorSpec t = first;
    t.name = "b";
    change(t);
    return t;
  };
  const Case cases[] = {
      {"their storage types differ",
       with([](TensorSpec& t) { t.dtypes = {{"weight", DType::f16}}; })},
      {"their groups differ", with([](TensorSpec& t) { t.group = 1; })},
      {"their offsets differ", with([](TensorSpec& t) { t.offset = 16384; })},
      {"their full sizes differ", with([](TensorSpec& t) { t.full_elements = 20000; })},
      {"their 'counted' differ", with([](TensorSpec& t) { t.counted = false; })},
      {"their 'updated' differ", with([](TensorSpec& t) { t.updated = false; })},
      {"overlaps @weight of tensor 0 'a'", with([](TensorSpec& t) { t.elements = 3; })},
      {"no error", with([](TensorSpec&) {})},
  };
  for (const Case& c : cases) {
    Layout layout;
    layout.add(first).add(c.other);
    std::vector<float> weight(4), grad(4);
    Step step(p, layout, Device::interpreter());
    step.prepare();
    step.bind_raw("weight", std::vector<float*>{weight.data(), weight.data()});
    CHECK(has(message_of([&] {
                step.run(std::vector<float*>{grad.data(), grad.data()}, step.make_args());
              }),
              c.what));
  }
}

TEST_CASE("layouts refuse sizes that cannot be") {
  Layout layout;
  CHECK(
      has(message_of(ErrorKind::bind, [&] { layout.add({.elements = static_cast<uint64_t>(-1)}); }),
          "negative"));
  CHECK(
      has(message_of(ErrorKind::bind, [&] { layout.add({.elements = 1, .group = -1}); }), "group"));
  CHECK(has(message_of(ErrorKind::bind, [&] { layout.add({.elements = 1, .offset = 6}); }),
            "offset 6 is not a multiple of 4"));
  CHECK(layout.size() == 0);
  constexpr uint64_t kMost = uint64_t{1} << 44;
  constexpr int kGroups = 1 << 20;
  CHECK(has(message_of(ErrorKind::bind, [&] { layout.add({.elements = kMost + 1}); }), "2^44"));
  CHECK_NOTHROW(Layout().add({.elements = kMost}));
  CHECK(has(
      message_of(ErrorKind::bind, [&] { Layout().add({.elements = kMost}).add({.elements = 1}); }),
      "its 1 elements and the 17592186044416 before it are too many"));
  CHECK_NOTHROW(Layout().add({.elements = 1, .offset = kMost}));
  CHECK_THROWS_AS(Layout().add({.elements = 1, .offset = kMost + 16384}), Error);
  CHECK_NOTHROW(Layout().add({.elements = 1, .group = kGroups - 1}));
  CHECK(has(message_of(ErrorKind::bind, [&] { layout.add({.elements = 1, .group = kGroups}); }),
            "group 1048576 is not in 0 … 1048575"));
  CHECK_NOTHROW(Layout().reserve_groups(kGroups));
  for (int groups : {0, -1, kGroups + 1}) CHECK_THROWS_AS(Layout().reserve_groups(groups), Error);
  Layout two;
  two.add({.elements = 1, .group = 1});
  CHECK_NOTHROW(two.set_group(Tensor{0}, Group{0}));
  for (int group : {-1, 2}) CHECK_THROWS_AS(two.set_group(Tensor{0}, Group{group}), Error);
  CHECK_THROWS_AS(two.set_group(Tensor{1}, Group{0}), Error);
  layout.add({.elements = 1, .dtypes = {{"weight", DType::f16}}});
  CHECK(has(message_of(ErrorKind::bind, [&] { Step(parse(kSgd), layout, Device::interpreter()); }),
            "@weight cannot be stored as f16"));
}

TEST_CASE("a shard says how large its tensor is, where a step asks for it") {
  Program counts = make_recipe(
      parse_optimizer("optimizer o \"\" { w = w - mean(g, tensor) * g / count(tensor) }", "o.opt"));
  auto step_of = [&](TensorSpec shard) {
    Layout layout;
    layout.add(std::move(shard));
    return Step(counts, layout, Device::interpreter());
  };
  CHECK(has(message_of(ErrorKind::bind, [&] { step_of({.elements = 8, .offset = 16384}); }),
            "set full_elements"));
  CHECK(has(message_of(ErrorKind::bind,
                       [&] { step_of({.elements = 8, .offset = 16384, .full_elements = 16391}); }),
            "full_elements 16391 is less"));
  CHECK(has(message_of(ErrorKind::bind, [&] { step_of({.elements = 9, .columns = 4}); }),
            "9 elements are not a whole number of rows of 4 columns"));
  for (Device device : {Device::interpreter(), Device::cpu(1)}) {
    Layout layout;
    layout.add({.elements = 4, .offset = 16384, .full_elements = 40000});
    Step step(counts, layout, device);
    step.prepare();
    std::vector<float> memory = {0, 0, 0, 0, 40000, 40000, 40000, 80000};
    std::vector<float*> weight = {memory.data()}, grad = {memory.data() + 4};
    step.bind_raw("weight", weight);
    step.adopt_state();
    step.run(grad, step.make_args());
    CHECK(memory[0] == -5.0F);
    CHECK(memory[3] == -10.0F);
  }
}

TEST_CASE("arguments by name, checked") {
  Fixture f;
  Args args = f.step.make_args();
  CHECK(args.get(f.step.arg("lr")) == 0.5);
  CHECK(has(message_of(ErrorKind::usage, [&] { args.set("rl", 1); }), "it has lr"));
  CHECK(has(message_of(ErrorKind::usage, [&] { args.set("lr", Group{3}, 1); }), "group 3"));
  f.bind();
  CHECK(has(message_of(ErrorKind::usage, [&] { f.step.run(f.grads, args); }), "prepare()"));
}

TEST_CASE("whole numbers are those of their type, to the last one") {
  Layout layout;
  layout.add({.elements = 1});
  Step step(parse("step @numbers {\n  buffer @grad : f32 in\n  report @r : i64\n  report @s : i32\n"
                  "  report @t : bool\n  arg %long : i64\n  arg %int : i32\n  arg %bit : bool\n"
                  "  write @r, %long\n  write @s, %int\n  write @t, %bit\n}\n"),
            layout, Device::interpreter());
  Args args = step.make_args();
  struct Case {
    const char* name;
    std::vector<double> good, bad;
  };
  for (const Case& c :
       {Case{"long", {0x1p63 - 1024, -0x1p63, 0}, {0x1p63, -0x1p63 - 2048, 0.5, HUGE_VAL}},
        Case{"int", {0x1p31 - 1, -0x1p31}, {0x1p31, -0x1p31 - 1, 1e-9, std::nan("")}},
        Case{"bit", {0, 1}, {2, -1, 0.5, std::nan("")}}}) {
    for (double v : c.good) {
      args.set(c.name, v);
      CHECK(args.get(step.arg(c.name)) == v);
    }
    for (double v : c.bad) {
      CHECK(has(message_of(ErrorKind::usage, [&] { args.set(c.name, v); }), c.name));
      CHECK(args.get(step.arg(c.name)) == c.good.back());
    }
  }
}

TEST_CASE("STEPFUSE_FORM overrides the form, and says what it takes") {
  ::setenv("STEPFUSE_FORM", "sideways", 1);
  CHECK(has(message_of(ErrorKind::usage, [] { Fixture(); }), "STEPFUSE_FORM=sideways"));
  ::setenv("STEPFUSE_FORM", "split", 1);
  Fixture f;
  ::unsetenv("STEPFUSE_FORM");
  f.bind();
  f.run();
  CHECK(f.memory[0] == 1.5F);
}
