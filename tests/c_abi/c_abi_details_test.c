// The C API from C, what a trainer asks for now and then: torch's scaler update, unchecked arguments,
// reports of groups, rules of its own, checkpoints that do not quite fit, sizes known before a step is
// made, what a step is made of, how it was compiled, and forms of moments. Argument: a folder for files.

#include "tests/c_abi/trainer.h"

static void run(trainer* t) { OK(stepfuse_step_run(t->step, t->gradients, 2, t->args, NULL)); }

static void test_scaler_update(void) {
  stepfuse_scaler_options options = STEPFUSE_SCALER_OPTIONS;
  trainer* t = make_trainer(STEPFUSE_INTERPRETER, NULL);
  double value;
  run(t);
  OK(stepfuse_scaler_read(t->scaler, "growth_tracker", &value));
  CHECK(value == 1);
  OK(stepfuse_scaler_update(t->scaler, 64));
  OK(stepfuse_scaler_read(t->scaler, "scale", &value));
  CHECK(value == 64);
  OK(stepfuse_scaler_read(t->scaler, "growth_tracker", &value));
  CHECK(value == 0);  // the step counts neither as good nor as bad
  FAILS(STEPFUSE_ERROR_USAGE, "positive", stepfuse_scaler_update(t->scaler, -1));
  FAILS(STEPFUSE_ERROR_USAGE, "scaler is NULL", stepfuse_scaler_update(NULL, 1));
  OK(stepfuse_scaler_get_options(t->scaler, &options));
  CHECK(options.init_scale == 65536 && options.growth_factor == 2 &&
        options.backoff_factor == 0.5 && options.growth_interval == 2000);
  free_trainer(t);
}

static void test_unchecked_args(void) {
  stepfuse_step_options unchecked = STEPFUSE_STEP_OPTIONS;
  trainer *a, *b;
  int32_t lr;
  double value;
  unchecked.check_args = 0;
  a = make_trainer(STEPFUSE_INTERPRETER, NULL);
  b = make_trainer(STEPFUSE_INTERPRETER, &unchecked);
  OK(stepfuse_step_arg(a->step, "lr", &lr));
  FAILS(STEPFUSE_ERROR_USAGE, "cannot be -1", stepfuse_args_set(a->args, lr, -1));
  OK(stepfuse_args_set(b->args, lr, -1));
  OK(stepfuse_args_get(b->args, lr, 0, &value));
  CHECK(value == -1);
  // A caller from before there was such a field.
  unchecked.struct_size = offsetof(stepfuse_step_options, unchecked_args);
  free_trainer(b);
  b = make_trainer(STEPFUSE_INTERPRETER, &unchecked);
  FAILS(STEPFUSE_ERROR_USAGE, "cannot be -1", stepfuse_args_set(b->args, lr, -1));
  free_trainer(a);
  free_trainer(b);
}

// --- one tensor of its own, f32, of any recipe

typedef struct small {
  stepfuse_program* program;
  stepfuse_layout* layout;
  stepfuse_step* step;
  stepfuse_args* args;
  float arrays[5][7];
} small;

// Two tensors of 3 and 4 elements in two groups; buffers by name, the gradient first.
static void make_small(small* s, const char* const* options, size_t option_count) {
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  stepfuse_buffer buffer = STEPFUSE_BUFFER;
  size_t i, j;
  memset(s, 0, sizeof *s);
  for (i = 0; i < 5; ++i) {
    for (j = 0; j < 7; ++j) s->arrays[i][j] = 1;
  }
  device.kind = STEPFUSE_INTERPRETER;
  OK(stepfuse_recipe("adamw", options, option_count, &s->program));
  OK(stepfuse_layout_create(&s->layout));
  tensor.elements = 3;
  OK(stepfuse_layout_add(s->layout, &tensor));
  tensor.elements = 4;
  tensor.group = 1;
  OK(stepfuse_layout_add(s->layout, &tensor));
  OK(stepfuse_step_create(s->program, s->layout, &device, NULL, &s->step));
  OK(stepfuse_step_prepare(s->step));
  for (i = 1; i < stepfuse_program_buffer_count(s->program); ++i) {
    void* arrays[] = {s->arrays[i], s->arrays[i] + 3};
    OK(stepfuse_program_buffer(s->program, i, &buffer));
    OK(stepfuse_step_bind(s->step, buffer.name, arrays, 2));
  }
  OK(stepfuse_step_init_state(s->step, NULL));
  OK(stepfuse_step_make_args(s->step, &s->args));
}

static void run_small(small* s) {
  void* gradients[] = {s->arrays[0], s->arrays[0] + 3};
  OK(stepfuse_step_run(s->step, gradients, 2, s->args, NULL));
}

static void free_small(small* s) {
  stepfuse_args_destroy(s->args);
  stepfuse_step_destroy(s->step);
  stepfuse_layout_destroy(s->layout);
  stepfuse_program_destroy(s->program);
}

static void test_reports_of_groups(void) {
  const char* options[] = {"clip=l2", "clip-per-group"};
  small s;
  stepfuse_stats* stats;
  const double* norms = NULL;
  int32_t found;
  double value;
  size_t count = 0, n;
  make_small(&s, options, 2);
  run_small(&s);
  OK(stepfuse_stats_create(&stats));
  OK(stepfuse_step_stats(s.step, NULL, stats, &found));
  OK(stepfuse_stats_list(stats, "grad_norm", &norms, &count));
  REQUIRE(count == 2);
  CHECK(norms[0] > 1.7320 && norms[0] < 1.7321 && norms[1] == 2);  // of 3 and of 4 ones
  n = stepfuse_stats_list_count(stats);
  CHECK(n > 0 && stepfuse_stats_list_name(stats, n) == NULL);
  while (n-- > 0) {
    OK(stepfuse_stats_list(stats, stepfuse_stats_list_name(stats, n), &norms, &count));
    CHECK(count == 2);
  }
  FAILS(STEPFUSE_ERROR_USAGE, "stepfuse_stats_list",
        stepfuse_stats_get(stats, "grad_norm", &value));
  FAILS(STEPFUSE_ERROR_USAGE, "grad_norm", stepfuse_stats_list(stats, "norm", &norms, &count));
  CHECK(norms == NULL);
  if (stepfuse_stats_count(stats) > 0) {
    FAILS(STEPFUSE_ERROR_USAGE, "stepfuse_stats_get",
          stepfuse_stats_list(stats, stepfuse_stats_name(stats, 0), &norms, &count));
  }
  stepfuse_stats_destroy(stats);
  free_small(&s);
}

static void test_checkpoints_that_differ(const char* folder) {
  const char* with_ema[] = {"ema"};
  const char* names[] = {"ema"};
  stepfuse_load_options options = STEPFUSE_LOAD_OPTIONS;
  small plain, averaged;
  char path[4096], other[4096];
  snprintf(path, sizeof path, "%s/c_abi_details.safetensors", folder);
  snprintf(other, sizeof other, "%s/c_abi_converted.safetensors", folder);
  make_small(&plain, NULL, 0);
  make_small(&averaged, with_ema, 1);
  run_small(&plain);
  OK(stepfuse_save_checkpoint(path, plain.step));
  FAILS(STEPFUSE_ERROR_USAGE, "ema", stepfuse_load_checkpoint(path, averaged.step));
  FAILS(STEPFUSE_ERROR_USAGE, "ema", stepfuse_load_checkpoint_with(path, averaged.step, &options));
  options.optional_count = 1;
  FAILS(STEPFUSE_ERROR_USAGE, "names is NULL",
        stepfuse_load_checkpoint_with(path, averaged.step, &options));
  options.optional = names;
  OK(stepfuse_load_checkpoint_with(path, averaged.step, &options));
  CHECK(averaged.arrays[2][0] == plain.arrays[2][0]);  // exp_avg
  OK(stepfuse_save_checkpoint(path, averaged.step));
  FAILS(STEPFUSE_ERROR_USAGE, "ema", stepfuse_load_checkpoint_with(path, plain.step, NULL));
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.ignored = names;
  options.ignored_count = 1;
  OK(stepfuse_load_checkpoint_with(path, plain.step, &options));

  OK(stepfuse_convert_checkpoint(path, other, "exp_avg_sq=fp8", 0));
  FAILS(STEPFUSE_ERROR_USAGE, "exp_avg_sq",
        stepfuse_load_checkpoint_with(other, plain.step, &options));
  OK(stepfuse_convert_checkpoint(other, path, "f32", 0));
  OK(stepfuse_load_checkpoint_with(path, plain.step, &options));
  FAILS(STEPFUSE_ERROR_USAGE, "fp9", stepfuse_convert_checkpoint(path, other, "fp9", 0));
  FAILS(STEPFUSE_ERROR_USAGE, "the file to read",
        stepfuse_convert_checkpoint(NULL, other, "fp8", 0));
  remove(path);
  remove(other);
  free_small(&plain);
  free_small(&averaged);
}

static void test_what_a_step_is_made_of(void) {
  const char* own[] = {"grad=f16|bf16"};
  stepfuse_storage storage[] = {{"grad", STEPFUSE_BF16}};
  stepfuse_device device = STEPFUSE_DEVICE, same = STEPFUSE_DEVICE;
  stepfuse_tensor tensor = STEPFUSE_TENSOR, read = STEPFUSE_TENSOR;
  stepfuse_program *program, *again;
  stepfuse_layout *layout, *copy;
  stepfuse_step* step;
  char *text, *other;
  size_t bytes;
  OK(stepfuse_recipe("adamw", own, 1, &program));
  OK(stepfuse_layout_create(&layout));
  tensor.name = "w";
  tensor.elements = 7;
  tensor.group = 2;
  tensor.offset = 16384;
  tensor.full_elements = 16400;
  tensor.columns = 41;
  tensor.present_by_gradient = 1;
  tensor.storage = storage;
  tensor.storage_count = 1;
  OK(stepfuse_layout_add(layout, &tensor));
  device.threads = 2;
  device.level = "x86-64";
  OK(stepfuse_workspace_bytes(program, layout, NULL, STEPFUSE_CPU, &bytes));
  OK(stepfuse_step_create(program, layout, &device, NULL, &step));
  CHECK(bytes > 0 && bytes == stepfuse_step_workspace_bytes(step));
  FAILS(STEPFUSE_ERROR_USAGE, "device kind",
        stepfuse_workspace_bytes(program, layout, NULL, 9, &bytes));
  tensor.name = "late";
  OK(stepfuse_step_append(step, &tensor));
  OK(stepfuse_step_set_group(step, 0, 1));
  FAILS(STEPFUSE_ERROR_BIND, "group 7 does not exist", stepfuse_step_set_group(step, 0, 7));
  FAILS(STEPFUSE_ERROR_BIND, "tensor 2 does not exist", stepfuse_step_set_group(step, 2, 0));
  OK(stepfuse_layout_reserve_groups(layout, 9));
  CHECK(stepfuse_layout_group_count(layout) == 9);

  OK(stepfuse_step_program(step, &again));
  OK(stepfuse_program_print(program, &text));
  OK(stepfuse_program_print(again, &other));
  CHECK(strcmp(text, other) == 0);
  OK(stepfuse_step_layout(step, &copy));
  CHECK(stepfuse_layout_size(layout) == 1 && stepfuse_layout_size(copy) == 2);
  CHECK(stepfuse_layout_group_count(copy) == 3 && stepfuse_layout_element_count(copy) == 14);
  OK(stepfuse_layout_tensor(copy, 1, &read));
  CHECK(strcmp(read.name, "late") == 0 && read.elements == 7 && read.group == 2);
  CHECK(read.offset == 16384 && read.full_elements == 16400 && read.columns == 41 && read.counted &&
        read.updated && read.present_by_gradient == 1 && read.struct_size == sizeof read);
  REQUIRE(read.storage_count == 1);
  CHECK(strcmp(read.storage[0].buffer, "grad") == 0 && read.storage[0].dtype == STEPFUSE_BF16);
  OK(stepfuse_layout_add(layout, &read));  // what was read can be added
  CHECK(stepfuse_layout_size(layout) == 2);
  FAILS(STEPFUSE_ERROR_USAGE, "no tensor 2: the layout has 2",
        stepfuse_layout_tensor(copy, 2, &read));
  OK(stepfuse_step_device(step, &same));
  CHECK(same.kind == STEPFUSE_CPU && same.threads == 2 && strcmp(same.level, "x86-64") == 0);
  CHECK(strcmp(same.options, "") == 0);
  stepfuse_free(text);
  stepfuse_free(other);
  stepfuse_step_destroy(step);
  stepfuse_layout_destroy(copy);
  stepfuse_layout_destroy(layout);
  stepfuse_program_destroy(again);
  stepfuse_program_destroy(program);
}

static void test_partial_at(void) {
  stepfuse_step_options observing = STEPFUSE_STEP_OPTIONS;
  stepfuse_partial first = STEPFUSE_PARTIAL, named = STEPFUSE_PARTIAL;
  trainer* t;
  observing.observe = 1;
  t = make_trainer(STEPFUSE_INTERPRETER, &observing);
  OK(stepfuse_step_reduce(t->step, t->gradients, 2, t->args, NULL));
  OK(stepfuse_step_partial(t->step, 0, &first));
  OK(stepfuse_step_partial_at(t->step, first.name, &named));
  CHECK(strcmp(first.name, named.name) == 0 && first.offset == named.offset);
  CHECK(first.pieces == named.pieces && first.piece_count == named.piece_count);
  FAILS(STEPFUSE_ERROR_USAGE, first.name, stepfuse_step_partial_at(t->step, "no such", &named));
  free_trainer(t);
}

// A name beyond the struct's 63 characters, a struct whose size is no size, and numbers of granularities.
static void test_long_names_and_sizes(void) {
  const char* name = "sum_of_all_gradients_of_the_whole_step_with_a_name_of_seventy_characters";
  char text[512];
  stepfuse_program* program;
  stepfuse_layout* layout;
  stepfuse_step* step;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_step_options observing = STEPFUSE_STEP_OPTIONS;
  stepfuse_partial partial = STEPFUSE_PARTIAL;
  stepfuse_state state = STEPFUSE_STATE;
  observing.observe = 1;
  device.kind = STEPFUSE_INTERPRETER;
  snprintf(text, sizeof text,
           "step @s {\n  buffer @grad : f32 in\n  report @r : {f32}\n  %%g = load @grad : [f32]\n"
           "  %%%s = reduce_add %%g : {f32}\n  write @r, %%%s\n}\n",
           name, name);
  OK(stepfuse_parse(text, NULL, &program));
  OK(stepfuse_layout_create(&layout));
  tensor.elements = 3;
  OK(stepfuse_layout_add(layout, &tensor));
  OK(stepfuse_step_create(program, layout, &device, &observing, &step));
  OK(stepfuse_step_partial(step, 0, &partial));
  CHECK(strlen(partial.name) == 63 && strcmp(partial.full_name, name) == 0);
  OK(stepfuse_step_partial_at(step, partial.full_name, &partial));
  OK(stepfuse_program_state(program, 0, &state));
  CHECK(state.granularity == STEPFUSE_PER_GROUP && STEPFUSE_PER_GROUP == 1);
  tensor.struct_size = (size_t)1 << 40;
  FAILS(STEPFUSE_ERROR_USAGE, "none is larger than 4096", stepfuse_layout_add(layout, &tensor));
  partial.struct_size = (size_t)1 << 40;
  FAILS(STEPFUSE_ERROR_USAGE, "none is larger than 4096", stepfuse_step_partial(step, 0, &partial));
  stepfuse_step_destroy(step);
  stepfuse_layout_destroy(layout);
  stepfuse_program_destroy(program);
}

typedef struct watch {
  int asked, told;
} watch;

static int32_t is_skipped(void* user, const stepfuse_stats* stats) {
  double skipped;
  ++((watch*)user)->asked;
  if (stepfuse_stats_index(stats) == 1) return -1;  // as if it did not report it
  return stepfuse_stats_get(stats, "skipped", &skipped) == STEPFUSE_OK && skipped != 0;
}

static void tell(void* user, const stepfuse_stats* stats, const char* message) {
  CHECK(stepfuse_stats_index(stats) == 2 && strcmp(message, "mine: step 2, 2 in a row") == 0);
  ++((watch*)user)->told;
}

static void feed(void* user, const stepfuse_stats* stats) {
  OK(stepfuse_monitor_feed_stats(user, stats));
}

// Steps 0 and 2 are skipped, step 1 does not say, step 3 is good.
static void test_rules_of_the_caller(void) {
  trainer* t = make_trainer(STEPFUSE_INTERPRETER, NULL);
  stepfuse_monitor *steps, *stats;
  watch of_steps = {0, 0}, of_stats = {0, 0};
  int i;
  OK(stepfuse_monitor_create(&steps));
  OK(stepfuse_monitor_create(&stats));
  OK(stepfuse_monitor_rule(steps, "mine", is_skipped, 2, tell, &of_steps));
  OK(stepfuse_monitor_rule(stats, "mine", is_skipped, 2, tell, &of_stats));
  FAILS(STEPFUSE_ERROR_USAGE, "condition is NULL",
        stepfuse_monitor_rule(steps, "mine", NULL, 2, tell, NULL));
  FAILS(STEPFUSE_ERROR_USAGE, "at least 1",
        stepfuse_monitor_rule(steps, "mine", is_skipped, 0, tell, NULL));
  for (i = 0; i < 4; ++i) {
    t->grad[3] = i % 2 == 0 ? 0x7c00 : half(1);
    run(t);
  }
  OK(stepfuse_monitor_feed(steps, t->step));
  OK(stepfuse_step_history(t->step, feed, stats));
  CHECK(of_steps.asked == 4 && of_steps.told == 1);
  CHECK(of_stats.asked == 4 && of_stats.told == 1);
  stepfuse_monitor_destroy(steps);
  stepfuse_monitor_destroy(stats);
  free_trainer(t);
}

// Arrays that already hold what to go on from give the same numbers as going on.
static void test_adopted_arrays(void) {
  trainer* a = make_trainer(STEPFUSE_INTERPRETER, NULL);
  trainer* b = make_trainer(STEPFUSE_INTERPRETER, NULL);
  uint64_t counts[2];
  size_t count;
  run(a);
  memcpy(b->weight, a->weight, sizeof a->weight);
  memcpy(b->master, a->master, sizeof a->master);
  memcpy(b->exp_avg, a->exp_avg, sizeof a->exp_avg);
  memcpy(b->exp_avg_sq, a->exp_avg_sq, sizeof a->exp_avg_sq);
  OK(stepfuse_step_adopt_state(b->step));
  OK(stepfuse_step_read_state(a->step, "step", counts, 2, &count, NULL));
  OK(stepfuse_step_write_state(b->step, "step", counts, 2, NULL));
  run(a);
  run(b);
  CHECK(same_numbers(a, b));
  FAILS(STEPFUSE_ERROR_USAGE, "step is NULL", stepfuse_step_adopt_state(NULL));
  free_trainer(a);
  free_trainer(b);
}

static void test_compile_report(void) {
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_compile_report report = STEPFUSE_COMPILE_REPORT, early = STEPFUSE_COMPILE_REPORT;
  stepfuse_program* program;
  stepfuse_layout* layout = make_layout();
  stepfuse_step *step, *again;
  double parts;
  OK(stepfuse_recipe("lion", NULL, 0, &program));
  OK(stepfuse_step_create(program, layout, &device, NULL, &step));
  OK(stepfuse_step_create(program, layout, &device, NULL, &again));
  if (stepfuse_step_prepare(step) == STEPFUSE_ERROR_DEVICE) {
    printf("skipped: the CPU (%s)\n", stepfuse_error_message());
  } else {
    OK(stepfuse_step_compile_report(step, &report));
    CHECK(!report.from_memory_cache && !report.from_disk_cache && !report.from_kernel_folder);
    CHECK(report.passes_ms > 0 && report.optimize_ms > 0 && report.codegen_ms > 0);
    parts = report.passes_ms + report.parse_ms + report.optimize_ms + report.codegen_ms +
            report.load_ms;
    CHECK(parts > report.compile_ms * 0.999 && parts < report.compile_ms * 1.001);
    CHECK(report.compile_ms <= report.prepare_ms && strstr(report.key, "cpu") != NULL);
    OK(stepfuse_step_prepare(again));
    OK(stepfuse_step_compile_report(again, &report));
    CHECK(report.from_memory_cache && report.codegen_ms == 0);
    // A caller from before there were parts gets what it knows, and nothing behind it.
    early.struct_size = offsetof(stepfuse_compile_report, passes_ms);
    early.codegen_ms = 5;
    OK(stepfuse_step_compile_report(step, &early));
    CHECK(early.prepare_ms > 0 && early.codegen_ms == 5 && early.key == NULL);
  }
  stepfuse_step_destroy(step);
  stepfuse_step_destroy(again);
  stepfuse_program_destroy(program);
  stepfuse_layout_destroy(layout);
}

// Runs the conversion of 300 values; `parts` names the buffers that `arrays` are, beginning with
// what is read.
static void convert(const char* from, const char* to, const char* const* parts, void** arrays,
                    size_t count) {
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  stepfuse_buffer buffer = STEPFUSE_BUFFER;
  stepfuse_program* program;
  stepfuse_layout* layout;
  stepfuse_step* step;
  stepfuse_args* args;
  size_t i;
  device.kind = STEPFUSE_INTERPRETER;
  tensor.elements = 300;
  OK(stepfuse_conversion(from, to, &program));
  REQUIRE(stepfuse_program_buffer_count(program) == count);
  OK(stepfuse_layout_create(&layout));
  OK(stepfuse_layout_add(layout, &tensor));
  OK(stepfuse_step_create(program, layout, &device, NULL, &step));
  for (i = 0; i < count; ++i) {
    OK(stepfuse_program_buffer(program, i, &buffer));
    CHECK(strcmp(buffer.name, parts[i]) == 0);
    CHECK(buffer.block == (strstr(parts[i], "scale") != NULL ? 256 : 1));
    OK(stepfuse_step_bind(step, buffer.name, &arrays[i], 1));
  }
  OK(stepfuse_step_prepare(step));
  OK(stepfuse_step_make_args(step, &args));
  OK(stepfuse_step_run(step, NULL, 0, args, NULL));
  stepfuse_args_destroy(args);
  stepfuse_step_destroy(step);
  stepfuse_layout_destroy(layout);
  stepfuse_program_destroy(program);
}

static void test_conversion(void) {
  const char* into[] = {"from", "to.fp8.code", "to.fp8.scale"};
  const char* back[] = {"from.fp8.code", "from.fp8.scale", "to"};
  float values[300], numbers[300], scales[2];
  unsigned char codes[300];
  void* arrays[] = {values, codes, scales, numbers};
  stepfuse_program* program = NULL;
  int i;
  // The scale is a 64th, and an eighth of it: codes are 64 times a small integer, and exact.
  for (i = 0; i < 300; ++i) values[i] = (float)(i % 15 - 7) * (i < 256 ? 1.0F : 0.125F);
  convert("f32", "fp8", into, arrays, 3);
  CHECK(scales[0] == 7.0F / 448 && scales[1] == 0.125F * 7 / 448);
  CHECK(codes[14] == 0x7e && codes[7] == 0 && codes[0] == 0xfe);  // 448, 0, -448
  convert("fp8", "f32", back, arrays + 1, 3);
  CHECK(memcmp(values, numbers, sizeof values) == 0);
  FAILS(STEPFUSE_ERROR_USAGE, "there is no format 'fp9'",
        stepfuse_conversion("f32", "fp9", &program));
  FAILS(STEPFUSE_ERROR_USAGE, "there is no format 'i32'",
        stepfuse_conversion("i32", "f32", &program));
  FAILS(STEPFUSE_ERROR_USAGE, "the form to convert to is NULL",
        stepfuse_conversion("f32", NULL, &program));
  FAILS(STEPFUSE_ERROR_USAGE, "NULL", stepfuse_conversion("f32", "fp8", NULL));
  CHECK(program == NULL);
}

static int is_denied;
static char pool[1 << 20];
static size_t pool_used;
static void* allocate(void* user, size_t bytes, stepfuse_stream stream) {
  char* memory = pool + pool_used + (256 - (uintptr_t)(pool + pool_used) % 256) % 256;
  (void)user;
  (void)stream;
  if (is_denied || bytes > (size_t)(pool + sizeof pool - memory)) return NULL;
  pool_used = (size_t)(memory - pool) + bytes;
  return memory;
}
static void release(void* user, void* memory, size_t bytes, stepfuse_stream stream) {
  (void)user;
  (void)memory;
  (void)bytes;
  (void)stream;
}

// Functions that return a size have no status: memory that they cannot allocate must not end the process.
static void test_sizes_without_memory(void) {
  stepfuse_step_options options = STEPFUSE_STEP_OPTIONS;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  trainer* t;
  uint64_t word = 0;
  options.allocate = allocate;
  options.release = release;
  t = make_trainer(STEPFUSE_INTERPRETER, &options);
  tensor.elements = 7;
  is_denied = 1;
  OK(stepfuse_step_append(t->step, &tensor));
  CHECK(stepfuse_step_workspace_bytes(t->step) == 0);
  CHECK(strstr(stepfuse_error_message(), "allocator returned null") != NULL);
  OK(stepfuse_step_append(t->step, &tensor));
  CHECK(stepfuse_step_args_bytes(t->step) == 0);
  is_denied = 0;
  CHECK(stepfuse_step_workspace_bytes(t->step) > 0 && stepfuse_step_args_bytes(t->step) > 0);
  FAILS(STEPFUSE_ERROR_USAGE, "count",
        stepfuse_step_write_state(t->step, "scale", &word, SIZE_MAX, NULL));
  free_trainer(t);
}

int main(int argc, char** argv) {
  test_scaler_update();
  test_unchecked_args();
  test_reports_of_groups();
  test_checkpoints_that_differ(argc > 1 ? argv[1] : ".");
  test_what_a_step_is_made_of();
  test_partial_at();
  test_long_names_and_sizes();
  test_rules_of_the_caller();
  test_adopted_arrays();
  test_compile_report();
  test_conversion();
  test_sizes_without_memory();
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
