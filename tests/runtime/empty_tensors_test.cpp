// Tensors without elements: in which steps they are present, in every form and in a record's replay.
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/recipes.hpp>
#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/saved/record.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

// A tensor of three elements, then two without elements: one that is always present, and one whose gradient decides.
struct Fixture {
  std::vector<float> weight = {1, 2, 3}, average = {0, 0, 0}, square = {0, 0, 0}, grad = {1, 1, 1};
  float somewhere = 0;
  Step step;

  Fixture(const Device& device, Form form) : step(make(device, form)) {
    step.bind_raw("weight", std::vector<void*>{weight.data(), nullptr, nullptr});
    step.bind_raw("exp_avg", std::vector<void*>{average.data(), nullptr, nullptr});
    step.bind_raw("exp_avg_sq", std::vector<void*>{square.data(), nullptr, nullptr});
    step.prepare();
    step.init_state();
  }
  static Step make(const Device& device, Form form) {
    Layout layout;
    layout.add({.elements = 3}).add({.elements = 0});
    layout.add({.elements = 0, .full_elements = 12, .present_by_gradient = true});
    return Step(make_recipe("adamw"), layout, device, {.form = form});
  }
  void run(bool has_gradient) {
    std::vector<void*> gradients = {grad.data(), nullptr, has_gradient ? &somewhere : nullptr};
    step.run(gradients, step.make_args());
  }
  std::vector<int64_t> counts() const { return counts_of(step.read_state("step")); }
  static std::vector<int64_t> counts_of(const std::vector<Bits>& state) {
    std::vector<int64_t> out;
    for (const Bits& count : state) out.push_back(count.i64());
    return out;
  }
};

std::vector<Device> devices() {
  std::vector<Device> all = {Device::interpreter()};
  if (llvm_status().available) all.push_back(Device::cpu(2));
  return all;
}

}  // namespace

TEST_CASE("empty tensors: one whose gradient decides is stepped only with a gradient") {
  for (const Device& device : devices()) {
    for (Form form : {Form::fused, Form::split, Form::unfused}) {
      Fixture f(device, form);
      f.run(false);
      CHECK(f.counts() == std::vector<int64_t>{1, 1, 0});
      f.run(true);
      CHECK(f.counts() == std::vector<int64_t>{2, 2, 1});
      f.run(false);
      CHECK(f.counts() == std::vector<int64_t>{3, 3, 1});
    }
  }
}

TEST_CASE("empty tensors: a record keeps which of them were present") {
  ScratchFolder folder;
  std::string path = (folder.path() / "record").string();
  Fixture f(Device::interpreter(), Form::fused);
  for (bool has_gradient : {false, true}) {
    f.run(has_gradient);
    StepRecord saved = capture(Internals::of(f.step), f.step.make_args());
    save_record(path, saved);
    for (const StepRecord& record : {saved, load_record(path)}) {
      StepRecord after = replay(record, Device::interpreter(), Form::fused);
      std::vector<int64_t> counts = f.counts();
      for (size_t t : {0, 1}) ++counts[t];
      if (has_gradient) ++counts[2];
      auto at = static_cast<size_t>(record.program.find_state("step"));
      CHECK(Fixture::counts_of(after.states[at]) == counts);
    }
  }
}
