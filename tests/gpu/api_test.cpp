// Uses of a step on a GPU besides running it: graphs, arguments on the device, the buffer between
// the phases, bisecting, mistakes. Small, so that the fake driver can execute it, too.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>

#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"
#include "tests/gpu/skip.hpp"
#include "tests/support/graph.hpp"
#include "tests/support/trainer.hpp"

namespace stepfuse::testing {

// A function of this machine's driver, fake or not.
void* driver_symbol(const char* name) {
  static void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? dlsym(library, name) : nullptr;
}

}  // namespace stepfuse::testing

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

const Trainer::Sizes kSizes = {300, 1, 17};
constexpr int kSteps = 1000;

Args scheduled(const Trainer& t, int i) {
  Args args = const_cast<Trainer&>(t).step().make_args();
  args.set("lr", 1e-3 * (1 + std::cos(3.14159265358979 * i / kSteps)));
  return args;
}

// Saves at step 300 and restores that after step 700; step 500 overflows.
void keep_or_restore(Trainer& t, int i, const std::string& file) {
  if (i == 300) save_checkpoint(file, t.step());
  if (i == 700) load_checkpoint(file, t.step());
}

std::string scratch_file() {
  return (std::filesystem::temp_directory_path() /
          ("stepfuse_gpu_" + std::to_string(::getpid()) + ".safetensors"))
      .string();
}

}  // namespace

TEST_CASE("a graph replayed 1,000 times learns what the host's interpreter learns") {
  STEPFUSE_NEEDS_GPU();
  std::string file = scratch_file();
  Trainer eager(Device::interpreter(), Form::fused, kSizes);
  eager.overflow_at = 500;
  for (int i = 0; i < kSteps; ++i) {
    keep_or_restore(eager, i, file);
    eager.step().run(eager.gradients(i, 0), scheduled(eager, i));
  }
  Trainer t(Device::cuda(), Form::fused, kSizes);
  t.overflow_at = 500;
  TestStream stream;
  std::vector<void*> g = t.gradients(0, 0);
  t.step().set_args(scheduled(t, 0), stream.stream());
  t.step().run_captured(g, stream.stream());
  stream.synchronize();
  TestGraph graph(stream, [&] { t.step().run_captured(g, stream.stream()); });
  for (int i = 1; i < kSteps; ++i) {
    keep_or_restore(t, i, file);
    t.gradients(i, 0);
    t.step().set_args(scheduled(t, i), stream.stream());
    graph.launch();
    stream.synchronize();
  }
  std::remove(file.c_str());
  CHECK(t.weights() == eager.weights());
}

TEST_CASE("arguments in device memory, the step's own and the caller's") {
  STEPFUSE_NEEDS_GPU();
  Trainer eager(Device::interpreter(), Form::fused, kSizes);
  Trainer t(Device::cuda(), Form::fused, kSizes);
  TestStream stream;
  uint64_t block = 0;
  REQUIRE(call_driver("cuMemAlloc_v2", &block, t.step().args_bytes()) == 0);
  std::vector<uint64_t> words(t.step().args_bytes() / 8);
  for (int i = 0; i < 8; ++i) {
    eager.run(i, 0);
    std::vector<void*> g = t.gradients(i, 0);
    if (i % 2 == 0) {
      t.step().write_args(t.args(i), words);
      REQUIRE(call_driver("cuMemcpyHtoD_v2", block, words.data(), words.size() * 8) == 0);
      t.step().run(g, DeviceArgs{reinterpret_cast<const void*>(block)}, stream.stream());
    } else {
      t.step().set_args(t.args(i), stream.stream());
      t.step().run_captured(g, stream.stream());
    }
    stream.synchronize();
  }
  CHECK(t.weights() == eager.weights());
  call_driver("cuMemFree_v2", block);
}

TEST_CASE("between the phases: observe, reduce, and a graph of both") {
  STEPFUSE_NEEDS_GPU();
  Trainer eager(Device::interpreter(), Form::fused, kSizes);
  Trainer t(Device::cuda(), Form::fused, kSizes);
  TestStream stream;
  std::vector<void*> g = t.gradients(0, 0);
  std::span<void* const> all = g;
  eager.run(0, 0);
  t.step().set_args(t.args(0), stream.stream());
  t.step().observe_captured(Tensor{1}, all.subspan(1), stream.stream());
  t.step().reduce_captured(g, stream.stream());
  t.step().run_captured(g, stream.stream());
  stream.synchronize();
  TestGraph graph(stream, [&] {
    t.step().observe_captured(Tensor{0}, all.subspan(0, 1), stream.stream());
    t.step().reduce_captured(g, stream.stream());
    t.step().run_captured(g, stream.stream());
  });
  for (int i = 1; i < 8; ++i) {
    eager.run(i, 0);
    t.gradients(i, 0);
    t.step().set_args(t.args(i), stream.stream());
    graph.launch();
    stream.synchronize();
  }
  CHECK(t.weights() == eager.weights());
  Partials partials = t.step().partials();
  float sum = 0;
  Internals::of(t.step()).backend->memory()->copy_to_host(
      &sum, static_cast<char*>(partials.block) + partials.at("sum").offset, sizeof sum, {});
  CHECK(std::sqrt(sum) == t.step().latest()->at("grad_norm"));
}

TEST_CASE("a live graph refuses moved arrays, and lets go when it is destroyed") {
  STEPFUSE_NEEDS_GPU();
  Trainer t(Device::cuda(), Form::fused, kSizes);
  TestStream stream;
  std::vector<void*> g = t.gradients(0, 0), moved = t.gradients(0, 1);
  t.step().set_args(t.args(0), stream.stream());
  t.step().run_captured(g, stream.stream());
  stream.synchronize();
  {
    TestGraph graph(stream, [&] { t.step().run_captured(g, stream.stream()); });
    CHECK_THROWS_WITH_AS(t.step().run(moved, t.args(1)), doctest::Contains("destroy the graph"),
                         Error);
    graph.launch();
    stream.synchronize();
  }
  t.step().run(moved, t.args(1));
}

TEST_CASE("ordinary host memory is refused by name") {
  STEPFUSE_NEEDS_GPU();
  if (cuda::driver_status().devices[0].pageable) {
    MESSAGE("skipped: kernels of this device can use it");
    return;
  }
  Layout layout;
  layout.add({.name = "bias", .elements = 100});
  std::vector<float> host(100);
  Step step(make_recipe("adamw"), layout, Device::cuda());
  CHECK_THROWS_WITH_AS(step.bind_raw("weight", std::vector<void*>{host.data()}),
                       doctest::Contains("@weight of tensor 0 'bias'"), Error);
}

TEST_CASE("STEPFUSE_FORM=interpret bisects on the device's own arrays") {
  STEPFUSE_NEEDS_GPU();
  Trainer compiled(Device::cuda(), Form::fused, kSizes);
  setenv("STEPFUSE_FORM", "interpret", 1);
  Trainer interpreted(Device::cuda(), Form::fused, kSizes);
  unsetenv("STEPFUSE_FORM");
  for (int i = 0; i < 8; ++i) {
    compiled.run(i, 0);
    interpreted.run(i, 0);
  }
  CHECK(interpreted.weights() == compiled.weights());
}
