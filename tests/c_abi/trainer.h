// A step of two tensors with everything that a mixed-precision trainer has, through the C API.
#ifndef STEPFUSE_TESTS_TRAINER_H
#define STEPFUSE_TESTS_TRAINER_H

#include "tests/c_abi/check.h"

enum { kWeights = 1000, kBiases = 10, kAll = kWeights + kBiases };

typedef struct trainer {
  stepfuse_scaler* scaler;
  stepfuse_step* step;
  stepfuse_args* args;
  uint16_t weight[kAll];  // f16
  uint16_t grad[kAll];
  float master[kAll], exp_avg[kAll], exp_avg_sq[kAll];
  void* gradients[2];
} trainer;

// f16 bits of a number that f16 has.
static uint16_t half(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  if ((bits & 0x7fffffff) == 0) return (uint16_t)(bits >> 16);
  if ((bits & 0x7f800000) == 0x7f800000) return (uint16_t)((bits >> 16 & 0x8000) | 0x7c00);
  return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) |
                    (bits >> 13 & 0x3ff));
}

static stepfuse_program* make_program(void) {
  const char* options[] = {"grad=f16", "master", "loss-scale=dynamic", "clip=l2", "monitor"};
  stepfuse_program* program;
  OK(stepfuse_recipe("adamw", options, 5, &program));
  return program;
}

static stepfuse_layout* make_layout(void) {
  stepfuse_layout* layout;
  stepfuse_tensor tensor = STEPFUSE_TENSOR;
  OK(stepfuse_layout_create(&layout));
  tensor.name = "weight";
  tensor.elements = kWeights;
  OK(stepfuse_layout_add(layout, &tensor));
  tensor.name = "bias";
  tensor.elements = kBiases;
  tensor.group = 1;
  OK(stepfuse_layout_add(layout, &tensor));
  return layout;
}

static void bind_all(trainer* t) {
  void* weight[] = {t->weight, t->weight + kWeights};
  void* master[] = {t->master, t->master + kWeights};
  void* exp_avg[] = {t->exp_avg, t->exp_avg + kWeights};
  void* exp_avg_sq[] = {t->exp_avg_sq, t->exp_avg_sq + kWeights};
  OK(stepfuse_step_bind(t->step, "weight", weight, 2));
  OK(stepfuse_step_bind(t->step, "master", master, 2));
  OK(stepfuse_step_bind(t->step, "exp_avg", exp_avg, 2));
  OK(stepfuse_step_bind(t->step, "exp_avg_sq", exp_avg_sq, 2));
}

static void set_gradients(trainer* t, float value) {
  int i;
  for (i = 0; i < kAll; ++i) t->grad[i] = half(i % 2 ? value : -value);
}

// `options` without its scaler; may be NULL. On the interpreter unless told otherwise.
static trainer* make_trainer(int32_t kind, const stepfuse_step_options* options) {
  trainer* t = calloc(1, sizeof *t);
  stepfuse_program* program = make_program();
  stepfuse_layout* layout = make_layout();
  stepfuse_device device = STEPFUSE_DEVICE;
  stepfuse_step_options own = STEPFUSE_STEP_OPTIONS;
  int i;
  REQUIRE(t != NULL);
  if (options != NULL) own = *options;
  device.kind = kind;
  OK(stepfuse_scaler_create(NULL, &t->scaler));
  own.scaler = t->scaler;
  OK(stepfuse_step_create(program, layout, &device, &own, &t->step));
  stepfuse_program_destroy(program);
  stepfuse_layout_destroy(layout);
  OK(stepfuse_step_prepare(t->step));
  for (i = 0; i < kAll; ++i) t->weight[i] = half(0.5F);
  bind_all(t);
  OK(stepfuse_step_init_state(t->step, NULL));
  OK(stepfuse_step_make_args(t->step, &t->args));
  t->gradients[0] = t->grad;
  t->gradients[1] = t->grad + kWeights;
  set_gradients(t, 2);
  return t;
}

static void free_trainer(trainer* t) {
  stepfuse_args_destroy(t->args);
  stepfuse_step_destroy(t->step);
  stepfuse_scaler_destroy(t->scaler);
  free(t);
}

static int same_numbers(const trainer* a, const trainer* b) {
  return memcmp(a->weight, b->weight, sizeof a->weight) == 0 &&
         memcmp(a->master, b->master, sizeof a->master) == 0 &&
         memcmp(a->exp_avg, b->exp_avg, sizeof a->exp_avg) == 0 &&
         memcmp(a->exp_avg_sq, b->exp_avg_sq, sizeof a->exp_avg_sq) == 0;
}

#endif
