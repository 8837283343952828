// A program compiled with the first C header runs with the library that is: its structs are shorter, and it uses the
// words and names that came first.
#include "tests/c_abi/first_header.h"
// The header of then comes before the checks, which else take today's.
#include "tests/c_abi/check.h"

enum { kElements = 8, kHalf = kElements / 2 };

static float weight[kElements], grad[kElements];

static stepfuse_program* make_program(const char* recipe, const char* const* options,
                                      size_t count) {
  stepfuse_program* program;
  OK(stepfuse_recipe(recipe, options, count, &program));
  return program;
}

static stepfuse_step* make_step(const stepfuse_program* program, const stepfuse_layout* layout,
                                const stepfuse_step_options* options) {
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_step* step;
  void* weights[] = {weight, weight + kHalf};
  device.kind = STEPFUSE_INTERPRETER;
  OK(stepfuse_step_create(program, layout, &device, options, &step));
  OK(stepfuse_step_prepare(step));
  OK(stepfuse_step_bind(step, "weight", weights, stepfuse_layout_size(layout)));
  OK(stepfuse_step_init_state(step, NULL));
  return step;
}

static void set_arrays(void) {
  int i;
  for (i = 0; i < kElements; ++i) {
    weight[i] = 1;
    grad[i] = i < kHalf ? 3 : 4;
  }
}

// `uncounted` and `frozen` leave the second of two tensors out of norm and update.
static void test_tensor_words(void) {
  const char* options[] = {"clip=l2", "tensor-flags"};
  stepfuse_program* program = make_program("sgd", options, 2);
  stepfuse_layout* layout;
  stepfuse_tensor tensor = STEPFUSE_TENSOR, read = STEPFUSE_TENSOR;
  stepfuse_step* step;
  stepfuse_args* args;
  stepfuse_stats* stats;
  void* gradients[] = {grad, grad + kHalf};
  int32_t lr, found;
  double value;
  OK(stepfuse_layout_create(&layout));
  OK(stepfuse_layout_reserve_groups(layout, 2));
  tensor.elements = kHalf;
  OK(stepfuse_layout_add(layout, &tensor));
  tensor.uncounted = 1;
  tensor.frozen = 1;
  OK(stepfuse_layout_add(layout, &tensor));
  OK(stepfuse_layout_tensor(layout, 0, &read));
  CHECK(read.uncounted == 0 && read.frozen == 0 && read.elements == kHalf);
  OK(stepfuse_layout_tensor(layout, 1, &read));
  CHECK(read.uncounted == 1 && read.frozen == 1 && read.size == sizeof read);
  set_arrays();
  step = make_step(program, layout, NULL);
  OK(stepfuse_step_make_args(step, &args));
  OK(stepfuse_step_arg(step, "lr", &lr));
  OK(stepfuse_args_set_group(args, lr, 0, 0.5));
  OK(stepfuse_args_get(args, lr, 0, &value));
  CHECK(value == 0.5);
  OK(stepfuse_step_run(step, gradients, 2, args, NULL));
  CHECK(weight[0] != 1 && weight[kHalf] == 1);
  OK(stepfuse_stats_create(&stats));
  OK(stepfuse_step_wait(step, NULL, stats, &found));
  CHECK(found == 1);
  OK(stepfuse_stats_get(stats, "grad_norm", &value));
  CHECK(value == 6);  // of four threes
  stepfuse_stats_destroy(stats);
  stepfuse_args_destroy(args);
  stepfuse_step_destroy(step);
  stepfuse_layout_destroy(layout);
  stepfuse_program_destroy(program);
}

// An lr below 0 is allowed if `unchecked_args` says so. Without it the options of then check arguments.
static void test_step_options(void) {
  stepfuse_program* program = make_program("sgd", NULL, 0);
  stepfuse_layout* layout;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  stepfuse_step_options options = STEPFUSE_STEP_OPTIONS;
  int32_t lr, round;
  OK(stepfuse_layout_create(&layout));
  tensor.elements = kElements;
  OK(stepfuse_layout_add(layout, &tensor));
  for (round = 0; round < 2; ++round) {
    stepfuse_step* step;
    stepfuse_args* args;
    void* gradients[] = {grad};
    options.unchecked_args = round;
    set_arrays();
    step = make_step(program, layout, &options);
    OK(stepfuse_step_make_args(step, &args));
    OK(stepfuse_step_arg(step, "lr", &lr));
    if (round == 0) {
      FAILS(STEPFUSE_ERROR_USAGE, "cannot be -1", stepfuse_args_set(args, lr, -1));
    } else {
      OK(stepfuse_args_set(args, lr, -1));
      OK(stepfuse_step_run(step, gradients, 1, args, NULL));
      CHECK(weight[0] == 4 && weight[kHalf] == 5);
    }
    stepfuse_args_destroy(args);
    stepfuse_step_destroy(step);
  }
  stepfuse_layout_destroy(layout);
  stepfuse_program_destroy(program);
}

static void test_other_structs(void) {
  stepfuse_program* program;
  stepfuse_buffer buffer = STEPFUSE_BUFFER;
  stepfuse_arg arg = STEPFUSE_ARG;
  stepfuse_cache cache = STEPFUSE_CACHE;
  char* text;
  OK(stepfuse_formula_text("sgd", &text));
  OK(stepfuse_formula(text, "sgd.opt", NULL, 0, &program));
  stepfuse_free(text);
  OK(stepfuse_program_buffer(program, 0, &buffer));
  CHECK(strcmp(buffer.name, "grad") == 0 && buffer.size == sizeof buffer);
  OK(stepfuse_program_arg(program, 0, &arg));
  CHECK(strcmp(arg.name, "lr") == 0);
  OK(stepfuse_cache_stats(&cache));
  CHECK(cache.size == sizeof cache);
  stepfuse_program_destroy(program);
  OK(stepfuse_conversion("f32", "bf16", &program));
  stepfuse_program_destroy(program);
}

int main(void) {
  test_tensor_words();
  test_step_options();
  test_other_structs();
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
