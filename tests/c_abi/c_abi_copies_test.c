// The C API from C: a program's description of its buffers and states is enough to allocate the
// arrays of scaled 8-bit copies. A step writes all of them and nothing beyond them.
#include "tests/c_abi/check.h"

enum { kTensors = 5, kMost = 6, kGuard = 0x5a };

// Squares cut in both directions, rows shorter than a square, a vector, one element, no elements.
static const uint64_t elements[kTensors] = {130 * 288, 127 * 32, 300, 1, 0};
static const uint64_t columns[kTensors] = {288, 32, 0, 0, 0};

// The number of values in a tensor's array of a buffer, by stepfuse.h.
static uint64_t count_of(const stepfuse_buffer* b, size_t t) {
  uint64_t n = elements[t], block = (uint64_t)b->block, rows = (uint64_t)b->rows;
  uint64_t row = columns[t] != 0 ? columns[t] : n;
  if (n < b->from || n >= b->below || n == 0) return 0;
  if (rows == 1) return (n + block - 1) / block;
  return (n / row + rows - 1) / rows * ((row + block - 1) / block);
}

// The index in that array of an element's value.
static uint64_t place_of(const stepfuse_buffer* b, size_t t, uint64_t element) {
  uint64_t row = columns[t] != 0 ? columns[t] : elements[t];
  uint64_t block = (uint64_t)b->block, along = (row + block - 1) / block;
  if (b->rows == 1) return element / block;
  return element / row / (uint64_t)b->rows * along + element % row / block;
}

static stepfuse_dtype only(uint32_t dtypes) {
  stepfuse_dtype dtype = 0;
  while (dtypes >> dtype > 1) ++dtype;
  CHECK(dtypes == (uint32_t)1 << dtype);
  return dtype;
}

typedef struct expected {
  const char* how;
  stepfuse_dtype scale;  // of weight_scale; -1 without one
  int32_t block, rows;
  size_t states;
} expected;

static float power_of(uint8_t biased) {
  uint32_t bits = (uint32_t)biased << 23;
  float power;
  memcpy(&power, &bits, 4);
  return power;
}

// The value of a positive normal code of f8e4m3.
static float e4m3(uint8_t code) {
  uint32_t bits = (((uint32_t)code >> 3) + 120) << 23 | (uint32_t)(code & 7) << 20;
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

typedef struct arrays {
  stepfuse_buffer buffer;
  stepfuse_dtype dtype;
  uint8_t* of[kTensors];
} arrays;

static size_t bytes_of(const arrays* a, size_t t) {
  return (size_t)count_of(&a->buffer, t) * stepfuse_dtype_size(a->dtype);
}

static void allocate(const stepfuse_program* program, size_t index, arrays* a) {
  const stepfuse_buffer none = STEPFUSE_BUFFER;
  size_t t;
  a->buffer = none;
  OK(stepfuse_program_buffer(program, index, &a->buffer));
  a->dtype = only(a->buffer.dtypes);
  for (t = 0; t < kTensors; ++t) {
    a->of[t] = malloc(bytes_of(a, t) + 64);
    REQUIRE(a->of[t] != NULL);
    memset(a->of[t], kGuard, bytes_of(a, t) + 64);
  }
}

static arrays* named(arrays* all, size_t count, const char* name) {
  size_t i;
  for (i = 0; i < count; ++i) {
    if (strcmp(all[i].buffer.name, name) == 0) return &all[i];
  }
  return NULL;
}

// The k-th weight; magnitudes differ between tensors.
static float weight_at(size_t t, uint64_t k) {
  return (1.0F + (float)(k % 7) / 8) / (float)(1 << (3 * t));
}

static void check_buffers(const expected* e, arrays* all, size_t count) {
  arrays* scale = named(all, count, "weight_scale");
  const arrays* weight = named(all, count, "weight");
  REQUIRE(weight != NULL);
  CHECK(weight->dtype == STEPFUSE_F8_E4M3);
  CHECK(weight->buffer.block == 1 && weight->buffer.rows == 1);
  CHECK(weight->buffer.is_written == 1 && weight->buffer.initialised == 0);
  CHECK((scale == NULL) == (e->scale < 0));
  if (scale == NULL) return;
  CHECK(scale->dtype == e->scale);
  CHECK(scale->buffer.block == e->block && scale->buffer.rows == e->rows);
  CHECK(scale->buffer.is_written == 1 && scale->buffer.initialised == 0);
  CHECK(scale->buffer.init_from == -1);
  CHECK(scale->buffer.from == 0 && scale->buffer.below == UINT64_MAX);
}

static void check_states(const expected* e, const stepfuse_program* program) {
  size_t i, found = 0;
  for (i = 0; i < stepfuse_program_state_count(program); ++i) {
    stepfuse_state state = STEPFUSE_STATE;
    OK(stepfuse_program_state(program, i, &state));
    if (strncmp(state.name, "copy_scale", 10) != 0 && strncmp(state.name, "amax_", 5) != 0)
      continue;
    ++found;
    CHECK(state.dtype == STEPFUSE_F32 && state.granularity == STEPFUSE_PER_TENSOR);
    CHECK(state.is_shared == 0 && state.is_report == 0);
    CHECK(state.initial == (state.name[0] == 'c' ? 0x3f800000 : 0));  // 1, or 0
  }
  CHECK(found == e->states);
}

// The factor by which an element's code is multiplied.
static float factor(const stepfuse_step* step, const arrays* scale, size_t t, uint64_t k) {
  uint64_t values[kTensors];
  size_t count = 0;
  float number;
  if (scale != NULL) {
    uint64_t at = place_of(&scale->buffer, t, k);
    CHECK(at < count_of(&scale->buffer, t));
    if (scale->dtype == STEPFUSE_F8_E8M0) return power_of(scale->of[t][at]);
    memcpy(&number, scale->of[t] + 4 * at, 4);
    return number;
  }
  OK(stepfuse_step_read_state(step, "copy_scale_inv", values, kTensors, &count, NULL));
  CHECK(count == kTensors);
  memcpy(&number, &values[t], 4);  // the low half
  return number;
}

static void check_step(const expected* e, stepfuse_step* step, arrays* all, size_t count) {
  const arrays *weight = named(all, count, "weight"), *scale = named(all, count, "weight_scale");
  size_t i, t, j;
  uint64_t k;
  int far = 0, spilled = 0;
  for (t = 0; t < kTensors; ++t) {
    for (k = 0; k < elements[t]; k += 61) {
      float is = e4m3(weight->of[t][k]) * factor(step, scale, t, k), should = weight_at(t, k);
      if (is > should * 1.0626F || is < should * 0.9374F) ++far;  // half a unit of 3 fraction bits
    }
    for (i = 0; i < count; ++i) {
      for (j = 0; j < 64; ++j) spilled += all[i].of[t][bytes_of(&all[i], t) + j] != kGuard;
    }
  }
  if (far != 0 || spilled != 0) fprintf(stderr, "%s\n", e->how);
  CHECK(far == 0);
  CHECK(spilled == 0);
}

static void test(const expected* e) {
  char how[64];
  const char* options[] = {how};
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_program* program;
  stepfuse_layout* layout;
  stepfuse_step* step;
  stepfuse_args* args;
  arrays all[kMost];
  arrays *grad, *master;
  size_t i, t, count;
  uint64_t k;
  int round;
  snprintf(how, sizeof how, "store=weight=f8e4m3:%s", e->how);
  OK(stepfuse_recipe("sgd", options, 1, &program));
  count = stepfuse_program_buffer_count(program);
  REQUIRE(count <= kMost);
  for (i = 0; i < count; ++i) allocate(program, i, &all[i]);
  check_buffers(e, all, count);
  check_states(e, program);
  OK(stepfuse_layout_create(&layout));
  for (t = 0; t < kTensors; ++t) {
    stepfuse_tensor tensor = STEPFUSE_TENSOR;
    tensor.elements = elements[t];
    tensor.columns = columns[t];
    OK(stepfuse_layout_add(layout, &tensor));
  }
  device.threads = 2;
  OK(stepfuse_step_create(program, layout, &device, NULL, &step));
  grad = named(all, count, "grad");
  master = named(all, count, "master");
  REQUIRE(grad != NULL && master != NULL);
  for (t = 0; t < kTensors; ++t) memset(named(all, count, "weight")->of[t], 0, (size_t)elements[t]);
  for (i = 0; i < count; ++i) {
    if (&all[i] != grad)
      OK(stepfuse_step_bind(step, all[i].buffer.name, (void**)all[i].of, kTensors));
  }
  OK(stepfuse_step_prepare(step));
  OK(stepfuse_step_init_state(step, NULL));
  for (t = 0; t < kTensors; ++t) {
    for (k = 0; k < elements[t]; ++k) ((float*)master->of[t])[k] = weight_at(t, k);
    memset(grad->of[t], 0, (size_t)elements[t] * 4);
  }
  OK(stepfuse_step_make_args(step, &args));
  // With "delayed" the second copy uses the scale computed by the first.
  for (round = 0; round < 2; ++round)
    OK(stepfuse_step_run(step, (void**)grad->of, kTensors, args, NULL));
  check_step(e, step, all, count);
  stepfuse_args_destroy(args);
  stepfuse_step_destroy(step);
  stepfuse_layout_destroy(layout);
  stepfuse_program_destroy(program);
  for (i = 0; i < count; ++i) {
    for (t = 0; t < kTensors; ++t) free(all[i].of[t]);
  }
}

// The number of values that a buffer in a different order has for a matrix, by stepfuse.h.
static uint64_t ordered_count(const stepfuse_buffer* b, uint64_t rows, uint64_t columns) {
  uint64_t along = b->is_transposed ? columns : rows, across = b->is_transposed ? rows : columns;
  uint64_t lines = (along + (uint64_t)b->rows - 1) / (uint64_t)b->rows;
  uint64_t places = (across + (uint64_t)b->block - 1) / (uint64_t)b->block;
  if (!b->is_swizzled) return lines * places;
  return (lines + 127) / 128 * 128 * ((places + 3) / 4 * 4);
}

// A step writes the arrays of other orders, and nothing beyond them: a matrix of 160 rows of 288.
static void test_orders(void) {
  enum { kRows = 160, kColumns = 288, kBuffers = 7 };
  static const char* const names[] = {"weight_t", "weight_scale_swizzled",
                                      "weight_scale_t_swizzled"};
  const char* options[] = {"store=weight=mxfp8", "orientation=both", "scale-layout=swizzled"};
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  stepfuse_buffer buffers[kBuffers];
  stepfuse_program* program;
  stepfuse_layout* layout;
  stepfuse_step* step;
  stepfuse_args* args;
  uint8_t* of[kBuffers];
  size_t bytes[kBuffers], i, j, grad = kBuffers, weight = kBuffers, turned = kBuffers, spilled = 0;
  size_t r, c, wrong = 0, found = 0;
  OK(stepfuse_recipe("sgd", options, 3, &program));
  REQUIRE(stepfuse_program_buffer_count(program) == kBuffers);
  for (i = 0; i < kBuffers; ++i) {
    const stepfuse_buffer none = STEPFUSE_BUFFER;
    stepfuse_buffer* b = &buffers[i];
    *b = none;
    OK(stepfuse_program_buffer(program, i, b));
    if (strcmp(b->name, "grad") == 0) grad = i;
    if (strcmp(b->name, "weight") == 0) weight = i;
    if (strcmp(b->name, "weight_t") == 0) turned = i;
    for (j = 0; j < 3; ++j) {
      if (strcmp(b->name, names[j]) != 0) continue;
      ++found;
      CHECK(b->is_transposed == (j != 1) && b->is_swizzled == (j != 0));
      REQUIRE(b->arranges >= 0 && (size_t)b->arranges < i);
      CHECK(strcmp(buffers[b->arranges].name, j == 0 ? "weight" : "weight_scale") == 0);
      CHECK(b->dtypes == buffers[b->arranges].dtypes);
    }
    if (b->arranges < 0) CHECK(!b->is_transposed && !b->is_swizzled);
    bytes[i] = (size_t)ordered_count(b, kRows, kColumns) * stepfuse_dtype_size(only(b->dtypes));
    of[i] = malloc(bytes[i] + 64);
    REQUIRE(of[i] != NULL);
    memset(of[i], 0, bytes[i]);
    memset(of[i] + bytes[i], kGuard, 64);
  }
  CHECK(found == 3);
  REQUIRE(grad < kBuffers && weight < kBuffers && turned < kBuffers);
  OK(stepfuse_layout_create(&layout));
  tensor.elements = kRows * kColumns;
  tensor.columns = kColumns;
  OK(stepfuse_layout_add(layout, &tensor));
  OK(stepfuse_step_create(program, layout, &device, NULL, &step));
  for (i = 0; i < kBuffers; ++i) {
    if (i != grad) OK(stepfuse_step_bind(step, buffers[i].name, (void**)&of[i], 1));
  }
  for (i = 0; i < kRows * kColumns; ++i) ((float*)of[grad])[i] = weight_at(i / 5000, i);
  OK(stepfuse_step_prepare(step));
  OK(stepfuse_step_init_state(step, NULL));
  OK(stepfuse_step_make_args(step, &args));
  OK(stepfuse_step_run(step, (void**)&of[grad], 1, args, NULL));
  for (r = 0; r < kRows; ++r) {
    for (c = 0; c < kColumns; ++c) {
      wrong += of[weight][r * kColumns + c] != of[turned][c * kRows + r];
    }
  }
  CHECK(wrong == 0);
  CHECK(of[weight][0] != 0);
  for (i = 0; i < kBuffers; ++i) {
    for (j = 0; j < 64; ++j) spilled += of[i][bytes[i] + j] != kGuard;
    free(of[i]);
  }
  CHECK(spilled == 0);
  stepfuse_args_destroy(args);
  stepfuse_step_destroy(step);
  stepfuse_layout_destroy(layout);
  stepfuse_program_destroy(program);
}

int main(void) {
  static const expected all[] = {
      {"delayed", -1, 0, 0, 17},                    // copy_scale, copy_scale_inv, amax_1 to amax_15
      {"current", -1, 0, 0, 1},                     // copy_scale_inv
      {"mx", STEPFUSE_F8_E8M0, 32, 1, 0},           // e8m0
      {"mx-rceil", STEPFUSE_F8_E8M0, 32, 1, 0},     //
      {"block128", STEPFUSE_F32, 128, 128, 0},      //
      {"block128-f32", STEPFUSE_F32, 128, 128, 0},  //
      {"mxfp8", STEPFUSE_F8_E8M0, 32, 1, 0},        // of squares, once per row
      {"mxfp8-rceil", STEPFUSE_F8_E8M0, 32, 1, 0}   //
  };
  size_t i;
  for (i = 0; i < sizeof all / sizeof *all; ++i) test(&all[i]);
  test_orders();
  printf("%d checks, %d failures\n", checks, failures);
  return failures != 0;
}
