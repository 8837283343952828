// Formats with an exemption for small tensors: one step treats each tensor like the step of that
// tensor's form.
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <stepfuse/checkpoint.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/stepfuse.hpp>

#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/saved/record.hpp"
#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"
#include "tests/support/messages.hpp"
#include "tests/support/scratch_folder.hpp"

using namespace stepfuse;
using namespace stepfuse::testing;

namespace {

using Tensors = std::vector<TensorSpec>;

Tensors whole_tensors() {
  Tensors tensors;
  for (uint64_t size : {100, 4096, 4095, 0, 20001, 7, 5000}) {
    tensors.push_back({.name = "t" + std::to_string(tensors.size()), .elements = size});
  }
  return tensors;
}
// Tensors of 40,000 and of 30,000 elements, cut at 16,384.
Tensors shards() {
  return {{.name = "a.0", .elements = 16384, .full_elements = 40000},
          {.name = "a.1", .elements = 300, .offset = 32768, .full_elements = 40000},
          {.name = "b.0", .elements = 16384, .full_elements = 30000},
          {.name = "b.1", .elements = 13616, .offset = 16384, .full_elements = 30000}};
}

RecipeOptions options_of(std::string_view moments, uint64_t below = 0) {
  RecipeOptions o{.clip = Clip::l2};
  set_option(o, "moments", moments);
  o.moments_below = below;
  return o;
}

// A step over tensors, with an array for each of their buffers.
struct Run {
  Program program;
  Tensors tensors;
  Step step;
  std::map<std::string, std::vector<std::vector<char>>> arrays;

  static Layout layout(const Tensors& tensors) {
    Layout layout;
    for (const TensorSpec& t : tensors) layout.add(t);
    return layout;
  }
  Run(const Program& p, const Tensors& list, const Device& device = Device::interpreter(),
      Form form = Form::fused)
      : program(p), tensors(list), step(p, layout(list), device, {.form = form}) {
    for (const Buffer& b : program.buffers) {
      for (const TensorSpec& t : tensors) {
        uint64_t count = b.is_of(t.element_count()) ? b.count(t.elements, t.column_count()) : 0;
        arrays[b.name].emplace_back(count * size_of(b.dtypes.only()), 7);
      }
      if (b.name == "weight") fill(b.name, 3);
      if (b.name != "grad") step.bind_raw(b.name, pointers(b.name));
    }
    step.prepare();
    step.init_state();
  }

  std::vector<void*> pointers(const std::string& buffer) {
    std::vector<void*> list;
    for (std::vector<char>& bytes : arrays.at(buffer)) {
      list.push_back(bytes.empty() ? nullptr : bytes.data());
    }
    return list;
  }
  void fill(const std::string& buffer, uint32_t seed) {
    for (std::vector<char>& bytes : arrays.at(buffer)) {
      auto* numbers = reinterpret_cast<float*>(bytes.data());
      for (size_t i = 0; i < bytes.size() / sizeof(float); ++i) {
        seed = seed * 1664525 + 1013904223;
        numbers[i] = static_cast<float>(seed >> 8) / 8388608.0F - 1;
      }
    }
  }
  void run(uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; ++i) {
      fill("grad", i);
      step.run(pointers("grad"), step.make_args());
    }
  }
};

// Each tensor equals the result of the step of its own form.
void check_tensors(const Run& mixed, const Run& plain, const Run& narrow, uint64_t below) {
  for (size_t t = 0; t < mixed.tensors.size(); ++t) {
    const Run& own = mixed.tensors[t].element_count() < below ? plain : narrow;
    for (const auto& [name, list] : mixed.arrays) {
      INFO("@" << name << " of tensor " << t);
      auto of_own = own.arrays.find(name);
      if (of_own == own.arrays.end()) {
        CHECK(list[t].empty());
      } else {
        CHECK(list[t] == of_own->second[t]);
      }
    }
  }
}

struct Way {
  Device device;
  Form form;
};
std::vector<Way> ways() {
  std::vector<Way> all;
  for (Form form : {Form::fused, Form::split, Form::unfused}) {
    if (llvm_status().available) all.push_back({Device::cpu(), form});
  }
  all.push_back({Device::interpreter(), Form::fused});
  return all;
}

}  // namespace

TEST_CASE("small tensors are stepped as in f32, and the others as in the format") {
  struct {
    std::string_view recipe, moments;
    Tensors tensors;
    uint64_t below;
  } cases[] = {{"adamw", "dyn8", whole_tensors(), 4096},
               {"adamw", "exp_avg=dyn4|exp_avg_sq=lin4", shards(), 40000},
               {"lamb", "fp8", whole_tensors(), 4096},
               {"lion", "int8", shards(), 16385},
               {"adamw", "exp_avg=dyn8", whole_tensors(), 1}};
  for (const auto& c : cases) {
    CAPTURE(c.recipe);
    CAPTURE(c.moments);
    Run plain(make_recipe(c.recipe, options_of("f32")), c.tensors);
    Run narrow(make_recipe(c.recipe, options_of(c.moments)), c.tensors);
    plain.run(0, 3);
    narrow.run(0, 3);
    for (const Way& way : ways()) {
      CAPTURE(name(way.form));
      Run mixed(make_recipe(c.recipe, options_of(c.moments, c.below)), c.tensors, way.device,
                way.form);
      mixed.run(0, 3);
      check_tensors(mixed, plain, narrow, c.below);
    }
  }
}

TEST_CASE("an array that a tensor has not is null, and one that it has is not") {
  Tensors tensors = whole_tensors();
  Run run(make_recipe("adamw", options_of("dyn8", 4096)), tensors);
  auto refusal = [&](const std::string& buffer, size_t tensor, void* pointer) {
    std::vector<void*> list = run.pointers(buffer);
    list[tensor] = pointer;
    return message_of([&] { run.step.bind_raw(buffer, list); });
  };
  float somewhere = 0;
  std::string message = refusal("exp_avg", 1, &somewhere);
  CHECK_MESSAGE(
      message.find("@exp_avg of tensor 1 't1' is bound, but a tensor of 4096 elements has "
                   "no such array") != std::string::npos,
      message);
  CHECK(refusal("exp_avg", 2, nullptr).find("@exp_avg of tensor 2 't2' is null") !=
        std::string::npos);
  CHECK(refusal("exp_avg.dyn8.code", 0, &somewhere).find("no such array") != std::string::npos);
  CHECK(refusal("exp_avg.dyn8.scale", 1, nullptr).find("is null") != std::string::npos);
  run.run(0, 1);  // as it was bound before
}

TEST_CASE("whose a buffer is follows from the full tensor, which a shard must name") {
  Program p = make_recipe("adamw", options_of("dyn8", 40000));
  Tensors unknown = {{.name = "b.1", .elements = 300, .offset = 16384}};
  CHECK(message_of([&] { Run(p, unknown); }).find("set full_elements") != std::string::npos);
  Run run(p, shards());
  CHECK(run.arrays["exp_avg"][1].empty());  // the tensor of 40,000 elements
  CHECK_FALSE(run.arrays["exp_avg"][3].empty());
}

TEST_CASE("the gradient is every tensor's") {
  Program p = parse(R"(step @mine {
  buffer @grad : f32 in below 100
  buffer @weight : f32 inout
  %g = load @grad : [f32]
  store @weight, %g
})");
  CHECK(message_of([&] { Run(p, whole_tensors()); })
            .find("@grad is the gradient, which tensors of "
                  "every size have") != std::string::npos);
  Layout layout = Run::layout({{.name = "t", .elements = 300}});
  Layout shard = Run::layout({{.name = "t", .elements = 300, .offset = 16384}});
  CHECK(message_of([&] {
          Step(p, shard, Device::interpreter(), {.gradient = ""});
        }).find("set full_elements") != std::string::npos);
  Step step(p, layout, Device::interpreter(), {.gradient = ""});
  std::vector<float> weight(300, 1);
  std::vector<void*> list = {nullptr};
  step.bind_raw("grad", list);
  list = {weight.data()};
  step.bind_raw("weight", list);
  step.prepare();
  step.run({}, step.make_args());
  CHECK(weight == std::vector<float>(300, 0));  // an absent buffer counts as zeros
}

TEST_CASE("a checkpoint holds what each tensor has, and one of other forms is converted to it") {
  ScratchFolder folder;
  auto at = [&](const char* name) { return (folder.path() / name).string(); };
  struct {
    Tensors tensors;
    uint64_t below;
  } cases[] = {{whole_tensors(), 4096}, {shards(), 40000}};
  for (const auto& [tensors, below] : cases) {
    Program mixed = make_recipe("adamw", options_of("dyn8", below));
    Run whole(mixed, tensors), first(mixed, tensors), second(mixed, tensors);
    whole.run(0, 4);
    first.run(0, 2);
    save_checkpoint(at("mixed"), first.step);
    load_checkpoint(at("mixed"), second.step);
    second.arrays["weight"] = first.arrays["weight"];
    second.run(2, 4);
    CHECK(second.arrays == whole.arrays);

    Run wide(make_recipe("adamw", options_of("f32")), tensors);
    Run narrow(make_recipe("adamw", options_of("dyn8")), tensors);
    wide.run(0, 2);
    save_checkpoint(at("f32"), wide.step);
    Run into(mixed, tensors);
    std::string flags = "NEW --moments='exp_avg=dyn8' --moments-below=" + std::to_string(below);
    std::string message = message_of([&] { load_checkpoint(at("f32"), into.step); });
    CHECK_MESSAGE(message.find(flags) != std::string::npos, message);
    convert_checkpoint(at("f32"), at("to_mixed"), "dyn8", below);
    load_checkpoint(at("to_mixed"), into.step);
    convert_checkpoint(at("f32"), at("to_dyn8"), "dyn8");
    load_checkpoint(at("to_dyn8"), narrow.step);
    for (const char* buffer : {"weight", "grad"}) {  // not in any checkpoint
      for (Run* r : {&into, &narrow}) r->arrays[buffer] = wide.arrays[buffer];
    }
    check_tensors(into, wide, narrow, below);
    convert_checkpoint(at("mixed"), at("back"), "f32");
    Run back(make_recipe("adamw", options_of("f32")), tensors);
    load_checkpoint(at("back"), back.step);
    for (size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].element_count() >= below) continue;
      CHECK(back.arrays["exp_avg"][t] == first.arrays["exp_avg"][t]);
    }
  }
}

TEST_CASE("a record of such a step is replayed bit for bit") {
  ScratchFolder folder;
  std::string path = (folder.path() / "record").string();
  Run run(make_recipe("adamw", options_of("dyn8", 4096)), whole_tensors());
  run.run(0, 2);
  StepRecord saved = capture(Internals::of(run.step), run.step.make_args());
  save_record(path, saved);
  StepRecord record = load_record(path);
  CHECK(record.buffers == saved.buffers);
  StepRecord a = replay(record, Device::interpreter(), Form::fused);
  StepRecord b = replay(record, llvm_status().available ? Device::cpu() : Device::interpreter(),
                        Form::unfused);
  CHECK_FALSE(first_difference(a, b).has_value());
  CHECK(first_difference(a, record).has_value());
}
