// Two ranks with a step each; a trainer reduces between the phases. The bits are one device's if
// pieces allow it, and always the same on both ranks. On every device, eager, captured and in every
// form.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/host_access.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr uint64_t kPiece = 16384;

std::vector<Device> devices() {
  std::vector<Device> all = {Device::interpreter()};
  if (llvm_status().available) all.push_back(Device::cpu());
  if (fake_device()) all.push_back(Device::cuda());
  return all;
}

// A part of a full tensor.
struct Share {
  size_t tensor = 0;
  uint64_t offset = 0, size = 0;
  bool counted = true, updated = true;
};

// The full weights, moments and gradients; ranks hold shares of them.
struct Model {
  explicit Model(std::vector<uint64_t> sizes) : sizes(std::move(sizes)) {
    uint64_t total = 0;
    for (uint64_t n : this->sizes) begins.push_back(total), total += n;
    size_t bytes = (4 * total * sizeof(float) + 4095) / 4096 * 4096;
    memory.reset(static_cast<float*>(std::aligned_alloc(4096, bytes)));
    std::memset(memory.get(), 0, bytes);
    if (fake_device()) {
      access.emplace_back(0, std::span(reinterpret_cast<char*>(memory.get()), bytes));
    }
    elements = total;
    for (uint64_t i = 0; i < total; ++i) {
      memory.get()[i] = std::sin(static_cast<float>(i));
      memory.get()[3 * total + i] = 65536.0F * std::cos(static_cast<float>(7 * i + 1));
    }
  }
  float* at(size_t buffer, const Share& s) const {
    return memory.get() + buffer * elements + begins[s.tensor] + s.offset;
  }
  std::vector<float> learned() const { return {memory.get(), memory.get() + 3 * elements}; }

  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::vector<uint64_t> sizes, begins;
  uint64_t elements = 0;
  std::unique_ptr<float, Free> memory;
  std::vector<cuda::HostAccess> access;
};

RecipeOptions recipe(Clip clip) {
  return {.loss_scale = LossScale::dynamic, .clip = clip, .all_reduce = true, .tensor_flags = true};
}

// A step over some shares of the model.
class Rank {
 public:
  Rank(const Model& model, const std::vector<Share>& shares, const Device& device, Form form,
       Clip clip = Clip::l2) {
    Layout layout;
    for (const Share& s : shares) {
      layout.add(
          {.elements = s.size, .offset = s.offset, .counted = s.counted, .updated = s.updated});
      gradients.push_back(model.at(3, s));
    }
    step = std::make_unique<Step>(make_recipe("adamw", recipe(clip)), layout, device,
                                  StepOptions{.form = form, .scaler = &scaler, .observe = true});
    step->prepare();
    const char* names[] = {"weight", "exp_avg", "exp_avg_sq"};
    for (size_t b = 0; b < 3; ++b) {
      std::vector<void*> pointers;
      for (const Share& s : shares) pointers.push_back(model.at(b, s));
      step->bind_raw(names[b], pointers);
    }
    step->init_state();
    args.emplace(step->make_args());
    args->set("max_norm", 0.5);
  }
  DeviceMemory& memory() const { return *Internals::of(*step).backend->memory(); }
  // The first phase's results, in host memory.
  std::vector<float> partials() const {
    Partials p = step->partials();
    std::vector<float> out(p.bytes / sizeof(float));
    memory().copy_to_host(out.data(), p.block, p.bytes, {});
    return out;
  }
  void replace_partials(const std::vector<float>& values) const {
    memory().copy_to_device(step->partials().block, values.data(), values.size() * sizeof(float),
                            {});
  }

  LossScaler scaler{{.growth_interval = 2}};
  std::vector<void*> gradients;
  std::unique_ptr<Step> step;
  std::optional<Args> args;
};

// An all-reduce of the first phases' results.
void all_reduce(Rank& a, Rank& b, Clip clip) {
  std::vector<float> x = a.partials(), y = b.partials();
  REQUIRE(x.size() == y.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = clip == Clip::inf ? std::fmax(x[i], y[i]) : x[i] + y[i];
  a.replace_partials(x);
  b.replace_partials(x);
}

struct Outcome {
  std::vector<float> learned;
  std::vector<double> norms, scales;
  bool operator==(const Outcome&) const = default;
};

void note(Outcome& out, const Rank& r) {
  r.step->stats();
  out.norms.push_back(r.step->latest()->at("grad_norm"));
  out.scales.push_back(r.scaler.read());
}

// Steps 0, 1 and 3 are good; in step 2 one element of the last tensor overflows.
constexpr int kSteps = 4;
void gradients_of(const Model& m, int i) {
  float* g = m.memory.get() + 3 * m.elements;
  g[m.elements - 1] = i == 2 ? std::numeric_limits<float>::infinity() : static_cast<float>(i);
}

Outcome one_device(const std::vector<uint64_t>& sizes, const Device& device, Clip clip) {
  Model model(sizes);
  std::vector<Share> whole;
  for (size_t t = 0; t < sizes.size(); ++t) whole.push_back({t, 0, sizes[t]});
  Rank all(model, whole, device, Form::fused, clip);
  Outcome out;
  for (int i = 0; i < kSteps; ++i) {
    gradients_of(model, i);
    all.step->run(all.gradients, *all.args);
    note(out, all);
  }
  out.learned = model.learned();
  return out;
}

using Exchange = void (*)(Rank&, Rank&, Clip);

Outcome two_ranks(const std::vector<uint64_t>& sizes, const std::vector<Share> (&shares)[2],
                  const Device& device, Form form, Clip clip, Exchange exchange) {
  Model model(sizes);
  Rank a(model, shares[0], device, form, clip), b(model, shares[1], device, form, clip);
  Outcome out;
  for (int i = 0; i < kSteps; ++i) {
    gradients_of(model, i);
    for (Rank* r : {&a, &b}) {
      std::span<void* const> g = r->gradients;
      // One rank observes a gradient that is ready early.
      if (r == &b) r->step->observe(Tensor{0}, g.subspan(0, 1), *r->args);
      r->step->reduce(g, *r->args);
    }
    exchange(a, b, clip);
    for (Rank* r : {&a, &b}) r->step->run(r->gradients, *r->args);
    note(out, a);
    b.step->stats();
    CHECK(b.step->latest()->at("grad_norm") == out.norms.back());
    CHECK(b.scaler.read() == out.scales.back());
  }
  out.learned = model.learned();
  return out;
}

}  // namespace

TEST_CASE("an all-reduce between the phases: one device's bits where pieces take turns") {
  // Pieces 0, 1, 2, … go to ranks 0, 1, 0, …, so that the last addition of the fold is that of the
  // ranks.
  const std::vector<uint64_t> sizes = {9000, kPiece, 2 * kPiece - 5, 40};
  const std::vector<Share> shares[2] = {{{0, 0, 9000}, {2, 0, kPiece}, {3, 0, 40}},
                                        {{1, 0, kPiece}, {2, kPiece, kPiece - 5}}};
  for (Clip clip : {Clip::l2, Clip::l1, Clip::inf}) {
    Outcome want = one_device(sizes, Device::interpreter(), clip);
    CHECK(want.scales == std::vector<double>{65536, 131072, 65536, 65536});
    for (const Device& device : devices()) {
      CHECK(one_device(sizes, device, clip) == want);
      for (Form form : {Form::fused, Form::split, Form::unfused}) {
        CAPTURE(name(form));
        CHECK(two_ranks(sizes, shares, device, form, clip, all_reduce) == want);
      }
    }
  }
}

TEST_CASE("pieces gathered from shards that are cut at any border give one device's bits") {
  const std::vector<uint64_t> sizes = {5 * kPiece, 3 * kPiece - 77};
  const std::vector<Share> shares[2] = {{{0, 0, 3 * kPiece}},
                                        {{0, 3 * kPiece, 2 * kPiece}, {1, 0, 3 * kPiece - 77}}};
  Exchange gather = [](Rank& a, Rank& b, Clip) {
    // The piece results of the first phase, in rank order, are those of one device, and folding
    // them is an ordinary reduction. reduce() has folded fewer than 16,384 pieces, so they are
    // still there.
    for (const char* name : {"sum", "nonfinite_sum"}) {
      std::vector<float> pieces;
      for (Rank* r : {&a, &b}) {
        Partials partials = r->step->partials();
        const Partial& p = partials.at(name);
        std::vector<float> own(p.piece_count);
        r->memory().copy_to_host(own.data(), p.pieces, own.size() * sizeof(float), {});
        pieces.insert(pieces.end(), own.begin(), own.end());
      }
      Layout layout;
      layout.add({.elements = pieces.size()});
      Step fold(parse(R"(step @fold {
        buffer @pieces : f32 in
        state @total : f32
        %p = load @pieces : [f32]
        %sum = reduce_add %p : f32
        write @total, %sum
      })"),
                layout, Device::interpreter(), {.gradient = ""});
      fold.prepare();
      fold.bind_raw("pieces", std::vector<void*>{pieces.data()});
      fold.run({}, fold.make_args());
      for (Rank* r : {&a, &b}) {
        Partials p = r->step->partials();
        r->memory().copy_to_device(static_cast<char*>(p.block) + p.at(name).offset,
                                   fold.device_state("total"), sizeof(float), {});
      }
    }
  };
  Outcome want = one_device(sizes, Device::interpreter(), Clip::l2);
  for (const Device& device : devices()) {
    CHECK(two_ranks(sizes, shares, device, Form::fused, Clip::l2, gather) == want);
  }
}

TEST_CASE("a tensor may be left out of the norm, or of the update") {
  // Tensor 1 is the same on both ranks: one counts it, both update it in their own arrays.
  const std::vector<uint64_t> sizes = {700, 500, 500};
  for (const Device& device : devices()) {
    for (Form form : {Form::fused, Form::unfused}) {
      Model all(sizes), some(sizes);
      for (Model* m : {&all, &some}) {
        std::memcpy(m->at(3, {2, 0, 0}), m->at(3, {1, 0, 0}), 500 * sizeof(float));
        m->at(3, {0, 0, 0})[3] = 1e9F;
      }
      std::vector<float> before = some.learned();
      Rank want(all, {{0, 0, 700}, {1, 0, 500}}, Device::interpreter(), Form::fused);
      Rank got(some, {{0, 0, 700, true, false}, {1, 0, 500}, {2, 0, 500, false, true}}, device,
               form);
      want.step->run(want.gradients, *want.args);
      got.step->run(got.gradients, *got.args);
      CHECK(want.step->stats()->at("grad_norm") == got.step->stats()->at("grad_norm"));
      for (size_t b = 0; b < 3; ++b) {
        auto array = [&](const Model& m, size_t t) {
          return std::vector<float>(m.at(b, {t, 0, 0}), m.at(b, {t, 0, 0}) + sizes[t]);
        };
        CHECK(array(some, 1) == array(all, 1));
        if (b > 0) CHECK(array(some, 2) == array(all, 1));
        std::vector<float> untouched(before.begin() + static_cast<std::ptrdiff_t>(b * 1700),
                                     before.begin() + static_cast<std::ptrdiff_t>(b * 1700 + 700));
        CHECK(array(some, 0) == untouched);
      }
      CHECK(got.step->read_state("step")[0].i64() == 0);
      CHECK(got.step->read_state("step")[2].i64() == 1);
      // An uncounted tensor cannot spoil the step.
      some.at(3, {2, 0, 0})[9] = std::numeric_limits<float>::quiet_NaN();
      got.step->run(got.gradients, *got.args);
      CHECK(got.step->stats()->at("found_inf") == 0);
    }
  }
}

TEST_CASE("reduce() between the phases is captured with what comes after it") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  const std::vector<uint64_t> sizes = {3000, 77};
  Model eager(sizes), captured(sizes);
  Rank want(eager, {{0, 0, 3000}, {1, 0, 77}}, Device::interpreter(), Form::fused);
  Rank got(captured, {{0, 0, 3000}, {1, 0, 77}}, Device::cuda(), Form::fused);
  std::vector<float> doubled;
  TestStream stream;
  // "All-reduce": the other rank's sum arrives by a copy that is part of the graph.
  uint64_t other = 0;
  REQUIRE(call_driver("cuMemAlloc_v2", &other, size_t{64}) == 0);
  got.step->set_args(*got.args, stream.stream());
  got.step->run_captured(got.gradients, stream.stream());
  want.step->run(want.gradients, *want.args);
  Partials p = got.step->partials();
  TestGraph graph(stream, [&] {
    got.step->reduce_captured(got.gradients, stream.stream());
    REQUIRE(call_driver("cuMemcpyDtoDAsync_v2", reinterpret_cast<uint64_t>(p.block), other, p.bytes,
                        stream.handle()) == 0);
    got.step->run_captured(got.gradients, stream.stream());
  });
  for (int i = 1; i < 5; ++i) {
    want.step->reduce(want.gradients, *want.args);
    std::vector<float> values = want.partials();
    for (float& v : values) v *= static_cast<float>(i);
    want.replace_partials(values);
    want.step->run(want.gradients, *want.args);
    REQUIRE(call_driver("cuMemcpyHtoD_v2", other, values.data(), p.bytes) == 0);
    graph.launch();
    stream.synchronize();
  }
  got.step->stats();
  CHECK(captured.learned() == eager.learned());
  CHECK(want.step->latest()->at("grad_norm") == got.step->latest()->at("grad_norm"));
  call_driver("cuMemFree_v2", other);
}

TEST_CASE("misuse between the phases is explained") {
  const std::vector<uint64_t> sizes = {300, 40};
  Model model(sizes);
  Rank r(model, {{0, 0, 300}, {1, 0, 40}}, Device::interpreter(), Form::fused);
  r.step->reduce(r.gradients, *r.args);
  std::vector<void*> others = r.gradients;
  others[1] = nullptr;
  CHECK_THROWS_WITH_AS(r.step->run(others, *r.args), doctest::Contains("after reduce()"), Error);
  r.step->run(r.gradients, *r.args);
  r.step->run(others, *r.args);
  CHECK_THROWS_WITH_AS(r.step->partials().at("norm"),
                       doctest::Contains("it reduces nonfinite_sum sum"), Error);

  Layout layout;
  layout.add({.name = "tied", .elements = 4, .counted = false});
  CHECK_THROWS_WITH_AS(
      Step(make_recipe("adamw", {.clip = Clip::l2}), layout, Device::interpreter()),
      doctest::Contains("tensor 0 'tied' has counted = false"), Error);
  layout = {};
  layout.add({.elements = 4});
  Step plain(make_recipe("adamw", {.clip = Clip::l2}), layout, Device::interpreter());
  plain.prepare();
  plain.adopt_state();
  std::vector<float> a(4), b(4), c(4), g(4);
  plain.bind_raw("weight", std::vector<void*>{a.data()});
  plain.bind_raw("exp_avg", std::vector<void*>{b.data()});
  plain.bind_raw("exp_avg_sq", std::vector<void*>{c.data()});
  std::vector<void*> gradients = {g.data()};
  CHECK_THROWS_WITH_AS(plain.reduce(gradients, plain.make_args()),
                       doctest::Contains("StepOptions::observe"), Error);
  CHECK_THROWS_WITH_AS(make_recipe("sgd", {.all_reduce = true}), doctest::Contains(".all_reduce"),
                       Error);
}

TEST_CASE("what is rolled up from reductions is made of what came back from the ranks") {
  Program program = parse(R"(step @rollup {
    buffer @grad : f32 in
    buffer @weight : f32 inout
    report @most : f32
    %g = load @grad : [f32]
    %sum = reduce_add %g : {f32}
    %double = add %sum, %sum : {f32}
    %most = reduce_max %double : f32
    %w = load @weight : [f32]
    %d = mul %g, %most : [f32]
    %w1 = sub %w, %d : [f32]
    store @weight, %w1
    write @most, %most
  })");
  for (const Device& device : devices()) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      CAPTURE(name(form));
      Model model({300, 300});
      std::fill_n(model.memory.get(), 4 * model.elements, 1.0F);
      Layout layout;
      layout.add({.elements = 300, .group = 0});
      layout.add({.elements = 300, .group = 1});
      Step step(program, layout, device, {.form = form, .observe = true});
      step.prepare();
      void* weights[] = {model.at(0, {0}), model.at(0, {1})};
      void* gradients[] = {model.at(3, {0}), model.at(3, {1})};
      step.bind_raw("weight", weights);
      auto most = [&] {
        step.stats();
        return step.latest()->at("most");
      };
      step.reduce(gradients, step.make_args());
      Partials partials = step.partials();
      REQUIRE(partials.all.size() == 1);
      float from_ranks[] = {10, 20};
      Internals::of(step).backend->memory()->copy_to_device(
          static_cast<char*>(partials.block) + partials.at("sum").offset, from_ranks,
          sizeof from_ranks, {});
      step.run(gradients, step.make_args());
      CHECK(most() == 40);
      CHECK(*model.at(0, {0}) == 1 - 40);
      step.run(gradients, step.make_args());
      CHECK(most() == 600);
    }
  }
}
