// One kernel, three places to take its arguments from: the launch, the step's own block, a block of the
// caller's; on every device, and captured.
#include <cstdlib>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/parser.hpp>

#include "compiler/abi.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/host_access.hpp"
#include "tests/cuda/fake_device.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/trainer.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

constexpr int kSteps = 7;
const Trainer::Sizes kSizes = {300, 1, 17};

// A block of arguments where the device can read it.
class Block {
 public:
  Block(const Step& step, bool on_device) : step_(step), words_(step.args_bytes() / 8) {
    if (!on_device) return;
    REQUIRE(call_driver("cuMemAlloc_v2", &device_, step.args_bytes()) == 0);
  }
  ~Block() {
    if (device_ != 0) call_driver("cuMemFree_v2", device_);
  }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  void set(const Args& args) {
    step_.write_args(args, words_);
    if (device_ == 0) return;
    REQUIRE(call_driver("cuMemcpyHtoD_v2", device_, words_.data(), words_.size() * 8) == 0);
  }
  DeviceArgs pointer() const {
    return {device_ != 0 ? reinterpret_cast<const void*>(device_) : words_.data()};
  }
  uint64_t address() const { return device_; }

 private:
  const Step& step_;
  std::vector<uint64_t> words_;
  uint64_t device_ = 0;
};

std::vector<Device> devices() {
  std::vector<Device> all = {Device::interpreter(), Device::cuda()};
  if (llvm_status().available) all.push_back(Device::cpu());
  return all;
}

}  // namespace

TEST_CASE("arguments by value, from the step's block and from the caller's give the same bits") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  std::vector<float> want;
  for (const Device& device : devices()) {
    for (Form form : {Form::fused, Form::split}) {
      CAPTURE(name(form));
      Trainer t(device, form, kSizes);
      Block block(t.step(), device.kind() == Device::Kind::cuda);
      CHECK_THROWS_WITH_AS(t.step().run_captured(t.gradients(0, 0)), doctest::Contains("set_args"),
                           Error);
      for (int i = 0; i < kSteps; ++i) {
        std::vector<void*> g = t.gradients(i, 0);
        if (i % 3 == 0) {
          t.step().run(g, t.args(i));
        } else if (i % 3 == 1) {
          t.step().set_args(t.args(i));
          t.step().run(g, t.args(99));  // does not change what was set
          t.step().run_captured(g);
        } else {
          block.set(t.args(i));
          t.step().run(g, block.pointer());
        }
      }
      if (want.empty()) want = t.weights();
      CHECK(t.weights() == want);
    }
  }
}

TEST_CASE("as many arguments as a launch's parameters hold, and one more") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  Program program = parse(R"(step @rates {
    buffer @grad : f32 in
    buffer @weight : f32 inout
    arg %rate : {f32}
    %g = load @grad : [f32]
    %w = load @weight : [f32]
    %d = mul %g, %rate : [f32]
    %w1 = add %w, %d : [f32]
    store @weight, %w1
  })");
  for (size_t groups : {abi::kInlineArgs - 1, abi::kInlineArgs, abi::kInlineArgs + 1}) {
    CAPTURE(groups);
    Layout layout;
    for (size_t g = 0; g < groups; ++g) layout.add({.elements = 1, .group = static_cast<int>(g)});
    Step step(program, layout, Device::cuda());
    CHECK(step.args_bytes() == groups * sizeof(uint64_t));
    alignas(4096) static float memory[2048];
    cuda::HostAccess access(0, {reinterpret_cast<char*>(memory), sizeof memory});
    std::vector<float*> weight, grad;
    for (size_t g = 0; g < groups; ++g) {
      weight.push_back(&memory[g]);
      grad.push_back(&memory[1024 + g]);
      *weight[g] = 0;
      *grad[g] = 1;
    }
    step.prepare();
    step.bind_raw("weight", weight);
    Args args = step.make_args();
    for (int round = 1; round < 3; ++round) {
      for (size_t g = 0; g < groups; ++g) {
        args.set("rate", Group{static_cast<int>(g)},
                 static_cast<double>(100 * round) + static_cast<double>(g));
      }
      step.run(grad, args);
    }
    (void)step.stats();  // waits
    for (size_t g = 0; g < groups; ++g) CHECK(memory[g] == 300 + 2 * static_cast<float>(g));
  }
}

TEST_CASE("observed gradients may take their arguments from a block, too") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  Trainer eager(Device::interpreter(), Form::fused, kSizes);
  Trainer t(Device::cuda(), Form::fused, kSizes);
  Block block(t.step(), true);
  for (int i = 0; i < kSteps; ++i) {
    eager.run(i, 0);
    std::vector<void*> g = t.gradients(i, 0);
    std::span<void* const> all = g;
    if (i % 2 == 0) {
      block.set(t.args(i));
      t.step().observe(Tensor{1}, all.subspan(1), block.pointer());
      t.step().run(all, block.pointer());
    } else {
      t.step().set_args(t.args(i));
      t.step().observe_captured(Tensor{0}, all.subspan(0, 2));
      t.step().run_captured(all);
    }
  }
  CHECK(t.weights() == eager.weights());
}

TEST_CASE("a captured step reads a block that the device itself writes") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer eager(Device::interpreter(), Form::fused, kSizes);
  for (int i = 0; i < kSteps; ++i) eager.run(i, 0);

  TestStream stream;
  Trainer t(Device::cuda(), Form::fused, kSizes);
  Block block(t.step(), true);
  // The learning rate of the next step, which a scheduler on the device would have computed, goes to
  // every group by copies that are part of the graph.
  ArgId lr = t.step().arg("lr");
  Block next(t.step(), true);
  std::vector<void*> g = t.gradients(0, 0);
  block.set(t.args(0));
  t.step().run(g, block.pointer(), stream.stream());
  TestGraph graph(stream, [&] {
    for (int group = 0; group < 2; ++group) {
      size_t at = t.step().arg_offset(lr, Group{group});
      REQUIRE(call_driver("cuMemcpyDtoDAsync_v2", block.address() + at, next.address() + at,
                          size_t{8}, stream.handle()) == 0);
    }
    t.step().run(g, block.pointer(), stream.stream());
  });
  for (int i = 1; i < kSteps; ++i) {
    t.gradients(i, 0);
    next.set(t.args(i));
    graph.launch();
    stream.synchronize();
  }
  CHECK(t.weights() == eager.weights());
}

TEST_CASE("one word of the step's own block may be overwritten on the device") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  Trainer eager(Device::interpreter(), Form::fused, kSizes);
  TestStream stream;
  Trainer t(Device::cuda(), Form::fused, kSizes);
  ArgId lr = t.step().arg("lr");
  for (int i = 0; i < kSteps; ++i) {
    Args args = eager.args(i);
    args.set(lr, Group{1}, 0.25);
    eager.step().run(eager.gradients(i, 0), args);
    t.step().set_args(t.args(i), stream.stream());
    double quarter = 0.25;
    auto word = reinterpret_cast<uint64_t>(t.step().device_arg(lr, Group{1}));
    REQUIRE(call_driver("cuMemcpyHtoDAsync_v2", word, &quarter, sizeof quarter, stream.handle()) ==
            0);
    t.step().run_captured(t.gradients(i, 0), stream.stream());
    stream.synchronize();
  }
  CHECK(t.weights() == eager.weights());
}

TEST_CASE("a norm and a found_inf that the device computed replace the step's own") {
  STEPFUSE_NEEDS_FAKE_DEVICE();
  make_context_current();
  Program program =
      make_recipe("adamw", {.clip = Clip::l2, .external_norm = true, .external_found_inf = true});
  Layout layout;
  layout.add({.elements = 500});
  auto learn = [&](const Device& device, bool by_word) {
    auto* memory = static_cast<float*>(std::aligned_alloc(4096, 8192));
    for (int i = 0; i < 2048; ++i) memory[i] = 0.25F * static_cast<float>(i % 7);
    std::vector<float> out;
    {
      cuda::HostAccess access(0, std::span(reinterpret_cast<char*>(memory), 8192));
      Step step(program, layout, device);
      step.prepare();
      step.adopt_state();
      const char* names[] = {"weight", "exp_avg", "exp_avg_sq"};
      for (size_t b = 0; b < 3; ++b) step.bind_raw(names[b], std::vector<void*>{memory + 512 * b});
      std::vector<void*> g = {memory + 1536};
      for (int i = 0; i < 6; ++i) {
        auto norm = static_cast<float>(i + 1);
        uint64_t bad = i == 3 ? 1 : 0;
        Args args = step.make_args();
        if (by_word) {
          step.set_args(args);
          auto word = [&](const char* name) {
            return reinterpret_cast<uint64_t>(step.device_arg(step.arg(name)));
          };
          REQUIRE(call_driver("cuMemcpyHtoDAsync_v2", word("external_norm"), &norm, size_t{4},
                              nullptr) == 0);
          REQUIRE(call_driver("cuMemcpyHtoDAsync_v2", word("external_found_inf"), &bad, size_t{1},
                              nullptr) == 0);
          step.run_captured(g);
        } else {
          args.set("external_norm", norm);
          args.set("external_found_inf", static_cast<double>(bad));
          step.run(g, args);
        }
      }
      CHECK(step.stats()->at("grad_norm") == 6);
      CHECK(step.read_state("step")[0].i64() == 5);
    }
    out.assign(memory, memory + 1536);
    std::free(memory);
    return out;
  };
  std::vector<float> want = learn(Device::interpreter(), false);
  CHECK(learn(Device::cuda(), false) == want);
  CHECK(learn(Device::cuda(), true) == want);
}

TEST_CASE("a block is laid out as documented, and misuse is explained") {
  Layout layout;
  layout.add({.elements = 3}).add({.elements = 4, .group = 2});
  Step step(parse(R"(step @s {
    buffer @w : f32 inout
    arg %a : {f64} = 1
    arg %b : i32 = -2
    arg %c : {f32} = 3
    arg %d : f64 = 4
    %w = load @w : [f32]
    %x = mul %w, %c : [f32]
    %b_f32 = cast %b : f32
    %a_f32 = cast %a : {f32}
    %d_f32 = cast %d : f32
    %y = add %x, %b_f32 : [f32]
    %z = add %y, %a_f32 : [f32]
    %u = add %z, %d_f32 : [f32]
    store @w, %u
  })"),
            layout, Device::interpreter(), {.gradient = ""});
  REQUIRE(step.args_bytes() == 8 * (2 + 3 * 2));
  Args args = step.make_args();
  args.set("a", Group{1}, 1.5);
  args.set("c", Group{2}, -1);
  std::vector<uint64_t> words(8);
  step.write_args(args, words);
  auto at = [&](const char* name, int group) {
    return words[step.arg_offset(step.arg(name), Group{group}) / 8];
  };
  CHECK(step.arg_offset(step.arg("b")) == 0);
  CHECK(step.arg_offset(step.arg("d")) == 8);
  CHECK(step.arg_offset(step.arg("a")) == 16);
  CHECK(step.arg_offset(step.arg("c")) == 24);
  CHECK(step.arg_offset(step.arg("a"), Group{1}) == 32);
  CHECK(step.arg_offset(step.arg("c"), Group{2}) == 56);
  CHECK(at("b", 0) == 0xfffffffeU);
  CHECK(at("d", 0) == 0x4010000000000000U);
  CHECK(at("a", 1) == 0x3ff8000000000000U);
  CHECK(at("c", 2) == 0xbf800000U);

  CHECK_THROWS_WITH_AS(step.arg_offset(step.arg("a"), Group{3}), doctest::Contains("group 3"),
                       Error);
  CHECK_THROWS_WITH_AS(step.write_args(args, std::span(words).subspan(1)),
                       doctest::Contains("take 8 words; 7"), Error);
  CHECK_THROWS_WITH_AS(step.run({}, DeviceArgs{}), doctest::Contains("null"), Error);
  auto* odd = reinterpret_cast<const char*>(words.data()) + 4;
  CHECK_THROWS_WITH_AS(step.run({}, DeviceArgs{odd}), doctest::Contains("8-byte"), Error);
}
