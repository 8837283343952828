// Ranges on a profiler's timeline: named by recipe and variant, in pairs, none without a profiler.
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;

TEST_CASE("a profiler sees what a step does, by recipe, form and storage types") {
  setenv("NVTX_INJECTION64_PATH", STEPFUSE_NVTX_RECORDER, 1);
  Layout layout;
  layout.add({.elements = 8, .dtypes = {{"grad", DType::bf16}}});
  layout.add({.elements = 4, .dtypes = {{"grad", DType::f32}}});
  Step step(make_recipe("sgd", {.grad = DTypeSet(DType::bf16) | DType::f32, .clip = Clip::l2}),
            layout, Device::interpreter(), {.form = Form::split, .observe = true});
  step.prepare();
  std::vector<float> weights(12), grads(12);
  step.bind_raw("weight", std::vector<void*>{weights.data(), weights.data() + 8});
  std::vector<void*> g = {grads.data(), grads.data() + 8};
  step.observe(Tensor{0}, std::span<void* const>(g).subspan(0, 1), step.make_args());
  step.reduce(g, step.make_args());
  step.run(g, step.make_args());

  void* recorder = dlopen(STEPFUSE_NVTX_RECORDER, RTLD_NOW | RTLD_NOLOAD);
  REQUIRE(recorder != nullptr);
  auto events = reinterpret_cast<const char* (*)()>(dlsym(recorder, "recorded_events"));
  const std::string name = "stepfuse sgd split bf16,f32 f32,f32";
  CHECK(std::string(events()) == "push " + name + " prepare\npop\n" +  //
                                     "push " + name + " observe\npop\n" + "push " + name +
                                     " reduce\npop\n" +  //
                                     "push " + name + "\npop\n");
}
