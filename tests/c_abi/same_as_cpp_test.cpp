// The C API gives the results of the C++ API for the same steps in one process.
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include <stepfuse/printer.hpp>
#include <stepfuse/stepfuse.h>
#include <stepfuse/stepfuse.hpp>

using namespace stepfuse;

namespace {

template <auto destroy>
struct Destroy {
  void operator()(auto* handle) const { destroy(handle); }
};
template <class T, auto destroy>
using Owned = std::unique_ptr<T, Destroy<destroy>>;

// A handle from the function whose last parameter is its address.
template <class T, auto destroy>
Owned<T, destroy> made(auto function, auto... arguments) {
  T* handle = nullptr;
  REQUIRE_MESSAGE(function(arguments..., &handle) == STEPFUSE_OK, stepfuse_error_message());
  return Owned<T, destroy>(handle);
}

void ok(stepfuse_status status) {
  REQUIRE_MESSAGE(status == STEPFUSE_OK, stepfuse_error_message());
}

const RecipeOptions kRecipe = {
    .loss_scale = LossScale::dynamic, .clip = Clip::l2, .clip_per_group = true};

Layout layout_of_three() {
  Layout layout;
  for (int i = 0; i < 3; ++i) layout.add({.name = "t", .elements = 100, .group = i});
  return layout;
}

// The same three tensors for both sides.
struct Model {
  float weight[300] = {}, grad[300] = {}, exp_avg[300] = {}, exp_avg_sq[300] = {};
  Model() {
    for (int i = 0; i < 300; ++i) grad[i] = static_cast<float>(i % 17) * 1024;
  }
  static std::vector<void*> of(float* all) { return {all, all + 100, all + 200}; }
};

struct Cpp {
  Model arrays;
  LossScaler scaler;
  Step step{
      make_recipe("adamw", kRecipe), layout_of_three(), Device::interpreter(), {.scaler = &scaler}};

  Cpp() {
    step.prepare();
    step.bind_raw("weight", Model::of(arrays.weight));
    step.bind_raw("exp_avg", Model::of(arrays.exp_avg));
    step.bind_raw("exp_avg_sq", Model::of(arrays.exp_avg_sq));
    step.init_state();
  }
  void run() { step.run(Model::of(arrays.grad), step.make_args()); }
};

struct C {
  Model arrays;
  Owned<stepfuse_program, stepfuse_program_destroy> program;
  Owned<stepfuse_layout, stepfuse_layout_destroy> layout =
      made<stepfuse_layout, stepfuse_layout_destroy>(stepfuse_layout_create);
  Owned<stepfuse_scaler, stepfuse_scaler_destroy> scaler =
      made<stepfuse_scaler, stepfuse_scaler_destroy>(stepfuse_scaler_create, nullptr);
  Owned<stepfuse_step, stepfuse_step_destroy> step;
  Owned<stepfuse_args, stepfuse_args_destroy> args;
  stepfuse_step_options options = STEPFUSE_STEP_OPTIONS;

  C() {
    const char* recipe[] = {"loss-scale=dynamic", "clip=l2", "clip-per-group"};
    program =
        made<stepfuse_program, stepfuse_program_destroy>(stepfuse_recipe, "adamw", &recipe[0], 3);
    for (int i = 0; i < 3; ++i) {
      auto tensor = stepfuse_tensor STEPFUSE_TENSOR;
      tensor.name = "t";
      tensor.elements = 100;
      tensor.group = i;
      ok(stepfuse_layout_add(layout.get(), &tensor));
    }
    auto device = stepfuse_device STEPFUSE_DEVICE;
    device.kind = STEPFUSE_INTERPRETER;
    options.scaler = scaler.get();
    step = made<stepfuse_step, stepfuse_step_destroy>(stepfuse_step_create, program.get(),
                                                      layout.get(), &device, &options);
    ok(stepfuse_step_prepare(step.get()));
    ok(stepfuse_step_bind(step.get(), "weight", Model::of(arrays.weight).data(), 3));
    ok(stepfuse_step_bind(step.get(), "exp_avg", Model::of(arrays.exp_avg).data(), 3));
    ok(stepfuse_step_bind(step.get(), "exp_avg_sq", Model::of(arrays.exp_avg_sq).data(), 3));
    ok(stepfuse_step_init_state(step.get(), nullptr));
    args = made<stepfuse_args, stepfuse_args_destroy>(stepfuse_step_make_args, step.get());
  }
  void run() {
    ok(stepfuse_step_run(step.get(), Model::of(arrays.grad).data(), 3, args.get(), nullptr));
  }
};

}  // namespace

TEST_CASE("every report of a step, of groups too, is the same in C") {
  Cpp cpp;
  C c;
  auto stats = made<stepfuse_stats, stepfuse_stats_destroy>(stepfuse_stats_create);
  for (int i = 0; i < 3; ++i) {
    cpp.run();
    c.run();
    StepStats expected = cpp.step.stats().value();
    int32_t found = 0;
    ok(stepfuse_step_stats(c.step.get(), nullptr, stats.get(), &found));
    REQUIRE(found == 1);
    REQUIRE(stepfuse_stats_count(stats.get()) == expected.values.size());
    for (const auto& [name, value] : expected.values) {
      double got = 0;
      ok(stepfuse_stats_get(stats.get(), name.c_str(), &got));
      CHECK(got == value);
    }
    REQUIRE(!expected.lists.empty());
    REQUIRE(stepfuse_stats_list_count(stats.get()) == expected.lists.size());
    for (size_t k = 0; k < expected.lists.size(); ++k) {
      const auto& [name, values] = expected.lists[k];
      CHECK(stepfuse_stats_list_name(stats.get(), k) == name);
      const double* got = nullptr;
      size_t count = 0;
      ok(stepfuse_stats_list(stats.get(), name.c_str(), &got, &count));
      CHECK(std::vector<double>(got, got + count) == values);
    }
  }
}

TEST_CASE("a scaler's update and options are the same in C") {
  Cpp cpp;
  C c;
  for (int i = 0; i < 5; ++i) {
    cpp.run();
    c.run();
    if (i % 2 == 1) {
      cpp.scaler.update(32 << i);
      ok(stepfuse_scaler_update(c.scaler.get(), 32 << i));
    }
    for (const char* state : {"scale", "growth_tracker"}) {
      double got = 0;
      ok(stepfuse_scaler_read(c.scaler.get(), state, &got));
      CHECK(got == cpp.scaler.read(state));
    }
  }
  auto options = stepfuse_scaler_options STEPFUSE_SCALER_OPTIONS;
  ok(stepfuse_scaler_get_options(c.scaler.get(), &options));
  CHECK(options.init_scale == cpp.scaler.options().init_scale);
  CHECK(options.growth_factor == cpp.scaler.options().growth_factor);
  CHECK(options.backoff_factor == cpp.scaler.options().backoff_factor);
  CHECK(options.growth_interval == cpp.scaler.options().growth_interval);
}

TEST_CASE(
    "the bytes of a step that is not made are the same in C, in every form and on every device") {
  C c;
  for (int32_t form : {STEPFUSE_FUSED, STEPFUSE_SPLIT, STEPFUSE_UNFUSED}) {
    for (int32_t kind : {STEPFUSE_CPU, STEPFUSE_INTERPRETER, STEPFUSE_CUDA}) {
      c.options.form = form;
      size_t bytes = 0;
      ok(stepfuse_workspace_bytes(c.program.get(), c.layout.get(), &c.options, kind, &bytes));
      CHECK(bytes == Step::workspace_bytes(make_recipe("adamw", kRecipe), layout_of_three(),
                                           {.form = static_cast<Form>(form)},
                                           static_cast<Device::Kind>(kind)));
    }
  }
}

TEST_CASE("a compile report is the same in C, its parts and its key") {
  Step step(make_recipe("adamw", {.amsgrad = true}), layout_of_three(), Device::cpu(1, "x86-64"));
  try {
    step.prepare();
  } catch (const Error& e) {
    MESSAGE("skipped: " << e.what());
    return;
  }
  const char* recipe[] = {"amsgrad"};
  auto program =
      made<stepfuse_program, stepfuse_program_destroy>(stepfuse_recipe, "adamw", &recipe[0], 1);
  C c;
  auto device = stepfuse_device STEPFUSE_DEVICE;
  device.level = "x86-64";
  auto same = made<stepfuse_step, stepfuse_step_destroy>(
      stepfuse_step_create, program.get(), c.layout.get(), &device,
      static_cast<const stepfuse_step_options*>(nullptr));
  ok(stepfuse_step_prepare(same.get()));
  auto report = stepfuse_compile_report STEPFUSE_COMPILE_REPORT;
  ok(stepfuse_step_compile_report(same.get(), &report));
  CHECK(report.key == step.compile_report().key);
  CHECK(report.from_memory_cache == 1);
}

TEST_CASE("a formula makes the same step from C as from C++") {
  const char* text = "optimizer mine \"\" { hyper lr = 0.5\n w = w - lr * g }";
  const char* options[] = {"master", "clip=l2"};
  auto program = made<stepfuse_program, stepfuse_program_destroy>(stepfuse_formula, text,
                                                                  "mine.opt", options, size_t{2});
  char* printed = nullptr;
  ok(stepfuse_program_print(program.get(), &printed));
  CHECK(printed == print(make_recipe(parse_optimizer(text), {.master = true, .clip = Clip::l2})));
  stepfuse_free(printed);

  stepfuse_program* none = nullptr;
  CHECK(stepfuse_formula("optimizer m \"\" { w = w - q }", "m.opt", nullptr, 0, &none) !=
        STEPFUSE_OK);
  CHECK(std::string(stepfuse_error_message()).find("m.opt:1:26: error: there is no 'q'") == 0);
  char* formula = nullptr;
  ok(stepfuse_formula_text("lion", &formula));
  CHECK(formula == std::string(built_in_optimizer("lion")->text()));
  stepfuse_free(formula);
  CHECK(stepfuse_formula_text("accumulate", &formula) != STEPFUSE_OK);
}

TEST_CASE("what a formula declares, from C") {
  const char* text =
      "optimizer m \"\" { hyper lr = 1\n option fast\n option odd\n moment z : f32 = w\n"
      " moment m\n m = g\n z = g\n"
      " if fast && odd { let r = lr } else { let r = lr / 2 }\n w = w - r * (z + m) }";
  char* names = nullptr;
  ok(stepfuse_formula_options(text, nullptr, &names));
  CHECK(std::string(names) == "fast\nodd\n");
  stepfuse_free(names);
  CHECK(stepfuse_formula_options("optimizer {", "x.opt", &names) == STEPFUSE_ERROR_PARSE);

  const char* options[] = {"master", "with=fast|odd"};
  auto program = made<stepfuse_program, stepfuse_program_destroy>(stepfuse_formula, text, nullptr,
                                                                  options, size_t{2});
  auto from = [&](size_t i) {
    stepfuse_buffer buffer = STEPFUSE_BUFFER;
    ok(stepfuse_program_buffer(program.get(), i, &buffer));
    return std::string(buffer.name) + " " + std::to_string(buffer.init_from);
  };
  CHECK(from(2) == "master 1");
  CHECK(from(3) == "z 2");
  CHECK(from(4) == "m -1");
}
