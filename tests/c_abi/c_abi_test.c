// The C API from C: every function at least once, with its results, and every misuse that must be
// an error. Argument: a folder for files.
#include <math.h>
#include <pthread.h>

#include "tests/c_abi/trainer.h"

static void test_errors(void) {
  stepfuse_program* program;
  stepfuse_layout* layout;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  struct {
    stepfuse_tensor known;
    int64_t later;
  } newer;
  int32_t line, column;
  CHECK(strcmp(stepfuse_error_message(), "") == 0);
  FAILS(STEPFUSE_ERROR_PARSE, "my.sf:2",
        stepfuse_parse("step @s {\n  oops\n}\n", "my.sf", &program));
  CHECK(program == NULL);
  stepfuse_error_place(&line, &column);
  CHECK(line == 2 && column > 0);
  FAILS(STEPFUSE_ERROR_USAGE, "text of the step is NULL", stepfuse_parse(NULL, NULL, &program));
  FAILS(STEPFUSE_ERROR_USAGE, "result is NULL", stepfuse_parse("", NULL, NULL));
  FAILS(STEPFUSE_ERROR_USAGE, "adamw", stepfuse_recipe("adamx", NULL, 0, &program));
  FAILS(STEPFUSE_ERROR_USAGE, "options is NULL", stepfuse_recipe("adamw", NULL, 1, &program));
  {
    const char* options[] = {"clip=l3"};
    FAILS(STEPFUSE_ERROR_USAGE, "l3", stepfuse_recipe("adamw", options, 1, &program));
  }
  FAILS(STEPFUSE_ERROR_USAGE, "step is NULL", stepfuse_step_prepare(NULL));
  FAILS(STEPFUSE_ERROR_USAGE, "'/nowhere' is not a folder", stepfuse_use_kernels("/nowhere"));

  OK(stepfuse_layout_create(&layout));
  tensor.elements = 5;
  tensor.group = -1;
  FAILS(STEPFUSE_ERROR_BIND, "group", stepfuse_layout_add(layout, &tensor));
  tensor.struct_size = 0;
  FAILS(STEPFUSE_ERROR_USAGE, "struct_size 0", stepfuse_layout_add(layout, &tensor));
  // A caller of a later version with a new field: first unset, then set.
  memset(&newer, 0, sizeof newer);
  newer.known.struct_size = sizeof newer;
  newer.known.elements = 5;
  OK(stepfuse_layout_add(layout, &newer.known));
  newer.later = 1;
  FAILS(STEPFUSE_ERROR_USAGE, "later version", stepfuse_layout_add(layout, &newer.known));
  // A caller of an earlier version, whose struct ends after name and elements.
  tensor.struct_size = offsetof(stepfuse_tensor, group);
  OK(stepfuse_layout_add(layout, &tensor));
  stepfuse_layout_destroy(layout);
  stepfuse_layout_destroy(NULL);
}

static void* other_thread(void* message) {
  stepfuse_program* program;
  CHECK(strcmp(stepfuse_error_message(), "") == 0);
  CHECK(stepfuse_parse("nonsense", NULL, &program) == STEPFUSE_ERROR_PARSE);
  CHECK(strcmp(stepfuse_error_message(), message) != 0);
  return NULL;
}

static void test_messages_are_of_threads(void) {
  stepfuse_program* program;
  char message[1000];
  pthread_t thread;
  CHECK(stepfuse_recipe("no such", NULL, 0, &program) == STEPFUSE_ERROR_USAGE);
  snprintf(message, sizeof message, "%s", stepfuse_error_message());
  REQUIRE(pthread_create(&thread, NULL, other_thread, message) == 0);
  pthread_join(thread, NULL);
  CHECK(strcmp(stepfuse_error_message(), message) == 0);
}

static void test_programs(void) {
  stepfuse_program* program = make_program();
  stepfuse_program* again;
  stepfuse_buffer buffer = STEPFUSE_BUFFER;
  stepfuse_state state = STEPFUSE_STATE;
  stepfuse_arg arg = STEPFUSE_ARG;
  char *text, *same;
  size_t i;
  int found = 0;
  OK(stepfuse_program_print(program, &text));
  OK(stepfuse_parse(text, NULL, &again));
  OK(stepfuse_program_print(again, &same));
  CHECK(strcmp(text, same) == 0);
  CHECK(strcmp(stepfuse_program_name(program), "adamw") == 0);
  stepfuse_free(text);
  stepfuse_free(same);
  stepfuse_program_destroy(again);

  REQUIRE(stepfuse_program_buffer_count(program) == 5);
  OK(stepfuse_program_buffer(program, 0, &buffer));
  CHECK(strcmp(buffer.name, "grad") == 0 && buffer.dtypes == 1U << STEPFUSE_F16);
  CHECK(!buffer.is_written && !buffer.initialised);
  OK(stepfuse_program_buffer(program, 2, &buffer));
  CHECK(strcmp(buffer.name, "master") == 0 && buffer.is_written && buffer.initialised);
  FAILS(STEPFUSE_ERROR_USAGE, "declares 5", stepfuse_program_buffer(program, 5, &buffer));
  for (i = 0; i < stepfuse_program_state_count(program); ++i) {
    OK(stepfuse_program_state(program, i, &state));
    if (strcmp(state.name, "scale") == 0) found |= state.is_shared && state.dtype == STEPFUSE_F32;
    if (strcmp(state.name, "grad_norm") == 0) found |= state.is_report ? 2 : 0;
    if (strcmp(state.name, "step") == 0) found |= state.granularity == STEPFUSE_PER_TENSOR ? 4 : 0;
  }
  CHECK(found == 7);
  OK(stepfuse_program_arg(program, 0, &arg));
  CHECK(strcmp(arg.name, "lr") == 0 && arg.has_default && arg.default_value == 0.001);
  CHECK(arg.granularity == STEPFUSE_PER_GROUP && arg.dtype == STEPFUSE_F64);
  OK(stepfuse_program_check_arg(program, 0, 0.0));
  FAILS(STEPFUSE_ERROR_USAGE, "'lr' of step @adamw cannot be -1: it must be at least 0",
        stepfuse_program_check_arg(program, 0, -1.0));
  FAILS(STEPFUSE_ERROR_USAGE, "declares", stepfuse_program_check_arg(program, 99, 0.0));
  FAILS(STEPFUSE_ERROR_USAGE, "program", stepfuse_program_check_arg(NULL, 0, 0.0));
  stepfuse_program_destroy(program);

  CHECK(strcmp(stepfuse_dtype_name(STEPFUSE_BF16), "bf16") == 0);
  CHECK(stepfuse_dtype_size(STEPFUSE_F64) == 8 && stepfuse_dtype_name(99) == NULL);
  for (i = 0; stepfuse_recipe_name(i) != NULL; ++i) CHECK(stepfuse_recipe_help(i)[0] != 0);
  CHECK(i > 3);
  for (i = 0; stepfuse_recipe_option_name(i) != NULL; ++i) {
    CHECK(stepfuse_recipe_option_help(i)[0] != 0);
  }
  CHECK(i > 10);
}

static double report_of(const trainer* t, const char* name) {
  stepfuse_stats* stats;
  double value = -1;
  int32_t found;
  OK(stepfuse_stats_create(&stats));
  OK(stepfuse_step_stats(t->step, NULL, stats, &found));
  CHECK(found);
  OK(stepfuse_stats_get(stats, name, &value));
  stepfuse_stats_destroy(stats);
  return value;
}

static void test_a_run(int32_t kind) {
  trainer* t = make_trainer(kind, NULL);
  int32_t lr;
  double value;
  float before = t->master[0];
  CHECK(before == 0.5F);
  OK(stepfuse_step_arg(t->step, "lr", &lr));
  FAILS(STEPFUSE_ERROR_USAGE, "lr", stepfuse_step_arg(t->step, "rl", &lr));
  OK(stepfuse_args_set(t->args, lr, 0.25));
  OK(stepfuse_args_set_member(t->args, lr, 1, 0));
  OK(stepfuse_args_get(t->args, lr, 0, &value));
  CHECK(value == 0.25);
  FAILS(STEPFUSE_ERROR_USAGE, "group", stepfuse_args_set_member(t->args, lr, 2, 0));
  OK(stepfuse_step_run(t->step, t->gradients, 2, t->args, NULL));
  // Adam's first step has the size lr; group 1 has lr 0.
  CHECK(fabs(fabs((double)t->master[0] - before) - 0.25) < 0.01);
  CHECK(t->master[kWeights] == 0.5F && t->weight[0] != half(0.5F));
  CHECK(fabs(report_of(t, "grad_norm") - 2 / 65536.0 * sqrt(kAll)) < 1e-9);
  // A tensor without a gradient stays unchanged. An infinite gradient skips the step and reduces
  // the scale.
  before = t->master[0];
  t->gradients[0] = NULL;
  OK(stepfuse_step_run(t->step, t->gradients, 2, t->args, NULL));
  CHECK(t->master[0] == before);
  t->gradients[0] = t->grad;
  t->grad[7] = half((float)INFINITY);
  OK(stepfuse_step_run(t->step, t->gradients, 2, t->args, NULL));
  CHECK(t->master[0] == before && report_of(t, "skipped") == 1);
  OK(stepfuse_scaler_read(t->scaler, "scale", &value));
  CHECK(value == 32768);
  {
    const float* scale;
    OK(stepfuse_scaler_device_scale(t->scaler, &scale));
    CHECK(*scale == 32768.0F);
  }
  OK(stepfuse_scaler_write(t->scaler, "scale", 16));
  OK(stepfuse_scaler_read(t->scaler, "scale", &value));
  CHECK(value == 16);
  FAILS(STEPFUSE_ERROR_BIND, "2 tensors",
        stepfuse_step_run(t->step, t->gradients, 1, t->args, NULL));
  FAILS(STEPFUSE_ERROR_USAGE, "NULL", stepfuse_step_run(t->step, NULL, 2, t->args, NULL));
  free_trainer(t);
}

// Arguments by value, from the step's own block, from the caller's block, and with observe(): the
// bits are the same.
static void test_every_way_to_run(void) {
  stepfuse_step_options observing = STEPFUSE_STEP_OPTIONS;
  trainer *a, *b, *c, *d, *e;
  stepfuse_args *copy, *block_args;
  int32_t lr;
  uint64_t words[64];
  size_t bytes, offset;
  void *address, *block;
  size_t count, i;
  stepfuse_partial partial = STEPFUSE_PARTIAL;
  observing.observe = 1;
  a = make_trainer(STEPFUSE_INTERPRETER, NULL);
  b = make_trainer(STEPFUSE_INTERPRETER, NULL);
  c = make_trainer(STEPFUSE_INTERPRETER, NULL);
  d = make_trainer(STEPFUSE_INTERPRETER, &observing);
  e = make_trainer(STEPFUSE_INTERPRETER, &observing);
  OK(stepfuse_step_arg(a->step, "lr", &lr));
  OK(stepfuse_args_set(a->args, lr, 0.125));
  OK(stepfuse_args_copy(a->args, &copy));
  OK(stepfuse_step_run(a->step, a->gradients, 2, copy, NULL));
  CHECK(a->master[0] != 0.5F);

  FAILS(STEPFUSE_ERROR_USAGE, "set_args", stepfuse_step_run(b->step, b->gradients, 2, NULL, NULL));
  OK(stepfuse_args_set(b->args, lr, 0.5));
  OK(stepfuse_step_set_args(b->step, b->args, NULL));
  OK(stepfuse_step_device_arg(b->step, lr, 0, &address));
  *(double*)address = 0.125;
  OK(stepfuse_step_device_arg(b->step, lr, 1, &address));
  *(double*)address = 0.125;
  OK(stepfuse_step_run(b->step, b->gradients, 2, NULL, NULL));
  CHECK(same_numbers(a, b));

  bytes = stepfuse_step_args_bytes(c->step);
  REQUIRE(bytes > 0 && bytes <= sizeof words);
  OK(stepfuse_step_write_args(c->step, c->args, words, bytes / 8));
  for (i = 0; i < 2; ++i) {
    double value = 0.125;
    OK(stepfuse_step_arg_offset(c->step, lr, (int32_t)i, &offset));
    memcpy((char*)words + offset, &value, 8);
  }
  OK(stepfuse_step_run_at(c->step, c->gradients, 2, words, NULL));
  CHECK(same_numbers(a, c));

  OK(stepfuse_args_set(d->args, lr, 0.125));
  OK(stepfuse_step_observe(d->step, 1, d->gradients + 1, 1, d->args, NULL));
  OK(stepfuse_step_observe(d->step, 0, d->gradients, 1, d->args, NULL));
  OK(stepfuse_step_reduce(d->step, d->gradients, 2, d->args, NULL));
  OK(stepfuse_step_partials(d->step, &block, &bytes, &count));
  REQUIRE(block != NULL && bytes > 0 && count > 0);
  OK(stepfuse_step_partial(d->step, 0, &partial));
  CHECK(partial.count == 1 && partial.name[0] != 0 && strncmp(partial.op, "reduce", 6) == 0);
  FAILS(STEPFUSE_ERROR_USAGE, "no partial", stepfuse_step_partial(d->step, count, &partial));
  OK(stepfuse_step_run(d->step, d->gradients, 2, d->args, NULL));
  CHECK(same_numbers(a, d));

  OK(stepfuse_args_set(e->args, lr, 0.125));
  OK(stepfuse_step_write_args(e->step, e->args, words, stepfuse_step_args_bytes(e->step) / 8));
  OK(stepfuse_step_observe_at(e->step, 0, e->gradients, 2, words, NULL));
  OK(stepfuse_step_reduce_at(e->step, e->gradients, 2, words, NULL));
  OK(stepfuse_step_args_at(e->step, words, &block_args));
  FAILS(STEPFUSE_ERROR_USAGE, "block in device memory", stepfuse_args_set(block_args, lr, 1.0));
  OK(stepfuse_step_run(e->step, e->gradients, 2, block_args, NULL));
  CHECK(same_numbers(a, e));

  stepfuse_args_destroy(copy);
  stepfuse_args_destroy(block_args);
  free_trainer(a);
  free_trainer(b);
  free_trainer(c);
  free_trainer(d);
  free_trainer(e);
}

static void test_states_and_checkpoints(const char* folder) {
  trainer* a = make_trainer(STEPFUSE_INTERPRETER, NULL);
  trainer* b = make_trainer(STEPFUSE_INTERPRETER, NULL);
  uint64_t counts[2];
  size_t count;
  void* address;
  char path[4096];
  snprintf(path, sizeof path, "%s/c_abi.safetensors", folder);
  OK(stepfuse_step_run(a->step, a->gradients, 2, a->args, NULL));
  OK(stepfuse_step_read_state(a->step, "step", NULL, 0, &count, NULL));
  CHECK(count == 2);
  FAILS(STEPFUSE_ERROR_USAGE, "room for 1",
        stepfuse_step_read_state(a->step, "step", counts, 1, &count, NULL));
  OK(stepfuse_step_read_state(a->step, "step", counts, 2, &count, NULL));
  CHECK(counts[0] == 1 && counts[1] == 1);
  counts[1] = 41;
  OK(stepfuse_step_write_state(a->step, "step", counts, 2, NULL));
  OK(stepfuse_step_device_state(a->step, "step", &address));
  CHECK(((int64_t*)address)[1] == 41);
  OK(stepfuse_save_checkpoint(path, a->step));
  OK(stepfuse_load_checkpoint(path, b->step));
  memcpy(b->weight, a->weight, sizeof a->weight);
  OK(stepfuse_step_run(a->step, a->gradients, 2, a->args, NULL));
  OK(stepfuse_step_run(b->step, b->gradients, 2, b->args, NULL));
  CHECK(same_numbers(a, b));
  OK(stepfuse_step_read_state(b->step, "step", counts, 2, &count, NULL));
  CHECK(counts[0] == 2 && counts[1] == 42);
  CHECK(stepfuse_load_checkpoint("/nowhere/x", b->step) != STEPFUSE_OK);
  remove(path);
  free_trainer(a);
  free_trainer(b);
}

static void count_one(void* user, const stepfuse_stats* stats) {
  CHECK(stepfuse_stats_index(stats) == *(uint64_t*)user);
  ++*(uint64_t*)user;
}

static void note_finding(void* user, const stepfuse_stats* stats, const char* message) {
  CHECK(stepfuse_stats_index(stats) == 2 && strstr(message, "skipped") != NULL);
  ++*(int*)user;
}

static void test_statistics(void) {
  trainer* t = make_trainer(STEPFUSE_INTERPRETER, NULL);
  stepfuse_stats* stats;
  stepfuse_monitor* monitor;
  uint64_t seen = 0;
  int findings = 0, others = 0, i;
  int32_t found = 1;
  char* line;
  double value;
  size_t n;
  OK(stepfuse_stats_create(&stats));
  OK(stepfuse_step_latest(t->step, stats, &found));
  CHECK(!found);
  OK(stepfuse_monitor_create(&monitor));
  OK(stepfuse_monitor_skipped(monitor, 2, note_finding, &findings));
  OK(stepfuse_monitor_scale_below(monitor, 1, note_finding, &others));
  OK(stepfuse_monitor_never_clipped(monitor, 100, note_finding, &others));
  OK(stepfuse_monitor_norm_near(monitor, 1e9, 0.5, 3, note_finding, &others));
  FAILS(STEPFUSE_ERROR_USAGE, "NULL", stepfuse_monitor_skipped(monitor, 2, NULL, NULL));
  for (i = 0; i < 4; ++i) {
    t->grad[3] = half(i == 1 || i == 2 ? (float)INFINITY : 1.0F);
    OK(stepfuse_step_run(t->step, t->gradients, 2, t->args, NULL));
  }
  OK(stepfuse_step_latest(t->step, stats, &found));
  CHECK(found && stepfuse_stats_index(stats) == 3);
  n = stepfuse_stats_count(stats);
  CHECK(n > 3 && stepfuse_stats_name(stats, n) == NULL);
  while (n-- > 0) OK(stepfuse_stats_get(stats, stepfuse_stats_name(stats, n), &value));
  FAILS(STEPFUSE_ERROR_USAGE, "grad_norm", stepfuse_stats_get(stats, "gradnorm", &value));
  OK(stepfuse_stats_json(stats, &line));
  CHECK(strncmp(line, "{\"step\":3,", 10) == 0);
  stepfuse_free(line);
  OK(stepfuse_step_history(t->step, count_one, &seen));
  CHECK(seen == 4);
  OK(stepfuse_monitor_feed(monitor, t->step));
  CHECK(findings == 1 && others == 0 && stepfuse_monitor_lost(monitor) == 0);
  stepfuse_monitor_destroy(monitor);
  stepfuse_stats_destroy(stats);
  free_trainer(t);
}

typedef struct pool {
  size_t bytes, calls;
  int empty;
} pool;

static void* take(void* user, size_t bytes, stepfuse_stream stream) {
  pool* p = user;
  void* memory = NULL;
  (void)stream;
  if (p->empty || posix_memalign(&memory, 256, bytes)) return NULL;
  p->bytes += bytes;
  ++p->calls;
  return memory;
}

static void give(void* user, void* memory, size_t bytes, stepfuse_stream stream) {
  (void)stream;
  ((pool*)user)->bytes -= bytes;
  free(memory);
}

static void test_allocator_and_append(void) {
  pool p = {0, 0, 0};
  stepfuse_step_options options = STEPFUSE_STEP_OPTIONS;
  stepfuse_program* program = make_program();
  stepfuse_layout* layout = make_layout();
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  stepfuse_step* step;
  trainer* t;
  size_t before;
  uint16_t weight[4] = {0, 0, 0, 0}, grad[4] = {0, 0, 0, 0};
  float master[4], m[4], v[4];
  options.allocate = take;
  options.user = &p;
  device.kind = STEPFUSE_INTERPRETER;
  FAILS(STEPFUSE_ERROR_USAGE, "both or neither",
        stepfuse_step_create(program, layout, &device, &options, &step));
  options.release = give;
  FAILS(STEPFUSE_ERROR_BIND, "shared states",
        stepfuse_step_create(program, layout, &device, &options, &step));
  t = make_trainer(STEPFUSE_INTERPRETER, &options);
  CHECK(p.bytes >= stepfuse_step_workspace_bytes(t->step) && p.calls > 0);
  before = p.calls;
  OK(stepfuse_step_run(t->step, t->gradients, 2, t->args, NULL));
  CHECK(p.calls == before);
  tensor.name = "late";
  tensor.elements = 4;
  OK(stepfuse_step_append(t->step, &tensor));
  OK(stepfuse_step_prepare(t->step));
  {
    void* w[] = {t->weight, t->weight + kWeights, weight};
    void* s[] = {t->master, t->master + kWeights, master};
    void* a[] = {t->exp_avg, t->exp_avg + kWeights, m};
    void* b[] = {t->exp_avg_sq, t->exp_avg_sq + kWeights, v};
    void* g[] = {t->grad, t->grad + kWeights, grad};
    OK(stepfuse_step_bind(t->step, "weight", w, 3));
    OK(stepfuse_step_bind(t->step, "master", s, 3));
    OK(stepfuse_step_bind(t->step, "exp_avg", a, 3));
    OK(stepfuse_step_bind(t->step, "exp_avg_sq", b, 3));
    FAILS(STEPFUSE_ERROR_USAGE, "append", stepfuse_step_run(t->step, g, 3, t->args, NULL));
    stepfuse_args_destroy(t->args);
    OK(stepfuse_step_make_args(t->step, &t->args));
    FAILS(STEPFUSE_ERROR_USAGE, "adopt_state", stepfuse_step_run(t->step, g, 3, t->args, NULL));
    master[0] = master[1] = master[2] = master[3] = 2;
    memset(m, 0, sizeof m);
    memset(v, 0, sizeof v);
    OK(stepfuse_step_adopt_state(t->step));
    OK(stepfuse_step_run(t->step, g, 3, t->args, NULL));
    CHECK(master[3] > 1.9F);
    memset(weight, 0, sizeof weight);
    OK(stepfuse_step_init_tensors(t->step, 2, NULL));
    CHECK(master[0] == 0 && m[3] == 0);
    OK(stepfuse_step_run(t->step, g, 3, t->args, NULL));
  }
  free_trainer(t);
  CHECK(p.bytes == 0);
  device.kind = 17;
  FAILS(STEPFUSE_ERROR_USAGE, "device kind",
        stepfuse_step_create(program, layout, &device, NULL, &step));
  stepfuse_program_destroy(program);
  stepfuse_layout_destroy(layout);
}

static void test_the_cpu(void) {
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_compile_report report = STEPFUSE_COMPILE_REPORT;
  stepfuse_cache_counts cache = STEPFUSE_CACHE_COUNTS;
  stepfuse_program* program;
  stepfuse_layout* layout = make_layout();
  stepfuse_step* step;
  stepfuse_status status;
  OK(stepfuse_recipe("sgd", NULL, 0, &program));
  OK(stepfuse_step_create(program, layout, &device, NULL, &step));
  status = stepfuse_step_prepare(step);
  if (status == STEPFUSE_ERROR_DEVICE) {
    printf("skipped: the CPU (%s)\n", stepfuse_error_message());
  } else {
    CHECK(status == STEPFUSE_OK);
    OK(stepfuse_step_compile_report(step, &report));
    CHECK(report.prepare_ms > 0 && report.struct_size == sizeof report &&
          !report.from_kernel_folder);
    OK(stepfuse_cache_stats(&cache));
    CHECK(cache.compiled > 0);
    test_a_run(STEPFUSE_CPU);
  }
  stepfuse_step_destroy(step);
  stepfuse_program_destroy(program);
  stepfuse_layout_destroy(layout);
}

static void test_version(void) {
  const int major = STEPFUSE_VERSION_MAJOR, minor = STEPFUSE_VERSION_MINOR;
  char text[64];
  CHECK(strcmp(stepfuse_version(), STEPFUSE_VERSION_STRING) == 0);
  snprintf(text, sizeof text, "%d.%d.%d", STEPFUSE_VERSION_MAJOR, STEPFUSE_VERSION_MINOR,
           STEPFUSE_VERSION_PATCH);
  CHECK(strcmp(text, STEPFUSE_VERSION_STRING) == 0);
  CHECK(STEPFUSE_VERSION_NUMBER == major * 10000 + minor * 100 + STEPFUSE_VERSION_PATCH);
  CHECK(stepfuse_version_matches(stepfuse_version()));
  snprintf(text, sizeof text, "%d.%d.%d", major, minor, STEPFUSE_VERSION_PATCH + 1);
  CHECK(stepfuse_version_matches(text));
  snprintf(text, sizeof text, "%d.%d0.0", major, minor);
  CHECK(!stepfuse_version_matches(text));
  snprintf(text, sizeof text, "%d.%d.0", major, minor + 1);
  CHECK(!stepfuse_version_matches(text));
  snprintf(text, sizeof text, "%d.%d.0", major + 1, minor);
  CHECK(!stepfuse_version_matches(text));
  snprintf(text, sizeof text, "%d.%d", major, minor);
  CHECK(!stepfuse_version_matches(text));
}

int main(int argc, char** argv) {
  test_errors();
  test_messages_are_of_threads();
  test_programs();
  test_a_run(STEPFUSE_INTERPRETER);
  test_every_way_to_run();
  test_states_and_checkpoints(argc > 1 ? argv[1] : ".");
  test_statistics();
  test_allocator_and_append();
  test_the_cpu();
  test_version();
  printf("stepfuse %s: %d checks, %d failures\n", stepfuse_version(), checks, failures);
  return failures != 0;
}
