// Trains one small GPT twice from the same start: once with a hand-written AdamW loop, once with a
// fused step through stepfuse.h in its place. Knows the C API.
//
//   llm_c [TEXT] [STEPS]      exit code 1 if the losses ever differ by 1e-5, or do not fall
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <stepfuse/stepfuse.h>

#include "samples/llm_c/gpt.h"

static const float kLearningRate = 1e-3F, kBeta1 = 0.9F, kBeta2 = 0.999F, kEpsilon = 1e-8F,
                   kWeightDecay = 0.1F;

// --- the loop that stepfuse replaces

static void plain_adamw(gpt* model, float* m, float* v, int step) {
  const float correction1 = 1 - powf(kBeta1, (float)step);
  const float correction2 = 1 - powf(kBeta2, (float)step);
  int t;
  size_t i;
  for (t = 0; t < kTensors; ++t) {
    const tensor* w = &model->tensors[t];
    const float decay = w->decayed ? kWeightDecay : 0;
    for (i = w->offset; i < w->offset + w->size; ++i) {
      const float g = model->grads[i];
      m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
      v[i] = kBeta2 * v[i] + (1 - kBeta2) * g * g;
      model->params[i] -=
          kLearningRate * ((m[i] / correction1) / (sqrtf(v[i] / correction2) + kEpsilon) +
                           decay * model->params[i]);
    }
  }
}

// --- its replacement

static void ok(stepfuse_status status) {
  if (status == STEPFUSE_OK) return;
  fprintf(stderr, "llm_c: %s\n", stepfuse_error_message());
  exit(1);
}

typedef struct fused {
  stepfuse_step* step;
  stepfuse_args* args;
  void* gradients[kTensors];
} fused;

// One pointer per tensor into an array of all parameters.
static void bind(stepfuse_step* step, const char* buffer, const gpt* model, float* array) {
  void* pointers[kTensors];
  int t;
  for (t = 0; t < kTensors; ++t) pointers[t] = array + model->tensors[t].offset;
  ok(stepfuse_step_bind(step, buffer, pointers, kTensors));
}

static void set(const fused* f, const char* name, int group, double value) {
  int32_t arg;
  ok(stepfuse_step_arg(f->step, name, &arg));
  ok(group < 0 ? stepfuse_args_set(f->args, arg, value)
               : stepfuse_args_set_member(f->args, arg, group, value));
}

static fused make_fused(gpt* model, float* m, float* v) {
  fused f;
  stepfuse_program* program;
  stepfuse_layout* layout;
  stepfuse_device device = STEPFUSE_DEVICE;
  int t;
  ok(stepfuse_recipe("adamw", NULL, 0, &program));
  ok(stepfuse_layout_create(&layout));
  for (t = 0; t < kTensors; ++t) {
    stepfuse_tensor tensor = STEPFUSE_TENSOR;
    tensor.name = model->tensors[t].name;
    tensor.elements = model->tensors[t].size;
    tensor.group = model->tensors[t].decayed ? 0 : 1;
    ok(stepfuse_layout_add(layout, &tensor));
    f.gradients[t] = model->grads + model->tensors[t].offset;
  }
  ok(stepfuse_step_create(program, layout, &device, NULL, &f.step));
  stepfuse_program_destroy(program);
  stepfuse_layout_destroy(layout);
  ok(stepfuse_step_prepare(f.step));
  bind(f.step, "weight", model, model->params);
  bind(f.step, "exp_avg", model, m);
  bind(f.step, "exp_avg_sq", model, v);
  ok(stepfuse_step_init_state(f.step, NULL));
  ok(stepfuse_step_make_args(f.step, &f.args));
  set(&f, "lr", -1, kLearningRate);
  set(&f, "beta1", -1, kBeta1);
  set(&f, "beta2", -1, kBeta2);
  set(&f, "eps", -1, kEpsilon);
  set(&f, "weight_decay", 0, kWeightDecay);
  set(&f, "weight_decay", 1, 0);
  return f;
}

// --- the text

typedef struct corpus {
  int* tokens;
  size_t count;
  int vocabulary;
} corpus;

static corpus read_text(const char* path) {
  corpus text = {NULL, 0, 0};
  int index[256];
  int c;
  size_t room = 1 << 20;
  FILE* file = fopen(path, "rb");
  text.tokens = malloc(room * sizeof(int));
  if (file == NULL || text.tokens == NULL) {
    fprintf(stderr, "llm_c: cannot read %s\n", path);
    exit(1);
  }
  memset(index, -1, sizeof index);
  while (text.count < room && (c = fgetc(file)) != EOF) {
    if (index[c] < 0) index[c] = text.vocabulary++;
    text.tokens[text.count++] = index[c];
  }
  fclose(file);
  if (text.count < 2 * kContext) {
    fprintf(stderr, "llm_c: %s is too short\n", path);
    exit(1);
  }
  return text;
}

static void draw_batch(const corpus* text, unsigned* state, int* inputs, int* targets) {
  int sequence;
  for (sequence = 0; sequence < kBatch; ++sequence) {
    size_t start;
    *state = *state * 1664525U + 1013904223U;
    start = (*state >> 8) % (text->count - kContext - 1);
    memcpy(inputs + sequence * kContext, text->tokens + start, kContext * sizeof(int));
    memcpy(targets + sequence * kContext, text->tokens + start + 1, kContext * sizeof(int));
  }
}

static double milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

// A zeroed array of `count` floats.
static float* array_of(size_t count) {
  float* array = calloc(count, sizeof(float));
  if (array == NULL) exit(1);
  return array;
}

int main(int argc, char** argv) {
  const corpus text = read_text(argc > 1 ? argv[1] : STEPFUSE_LLM_C_TEXT);
  const int steps = argc > 2 ? atoi(argv[2]) : 200;
  gpt* a = gpt_create(text.vocabulary, 1);
  gpt* b = gpt_create(text.vocabulary, 1);
  float *ma = array_of(a->count), *va = array_of(a->count);
  float *mb = array_of(b->count), *vb = array_of(b->count);
  fused f = make_fused(b, mb, vb);
  int inputs[kRows], targets[kRows];
  unsigned state = 7;
  float first = 0, last = 0;
  double plain_ms = 1e30, fused_ms = 1e30, apart = 0, start, elapsed;
  int step;
  printf("%zu parameters in %d tensors, %zu characters of %d kinds\n\n", a->count, (int)kTensors,
         text.count, text.vocabulary);
  printf("step   loss, plain loop   loss, stepfuse   apart\n");
  for (step = 1; step <= steps; ++step) {
    float loss_a, loss_b;
    draw_batch(&text, &state, inputs, targets);
    loss_a = gpt_forward_backward(a, inputs, targets);
    loss_b = gpt_forward_backward(b, inputs, targets);

    last = loss_b;
    if (step == 1) first = loss_b;

    start = milliseconds();
    plain_adamw(a, ma, va, step);
    elapsed = milliseconds() - start;
    plain_ms = elapsed < plain_ms ? elapsed : plain_ms;

    start = milliseconds();
    ok(stepfuse_step_run(f.step, f.gradients, kTensors, f.args, NULL));
    elapsed = milliseconds() - start;
    fused_ms = elapsed < fused_ms ? elapsed : fused_ms;

    if (!(fabsf(loss_a - loss_b) <= apart)) apart = fabsf(loss_a - loss_b);
    if (step == 1 || step % 20 == 0) {
      printf("%4d %18.6f %16.6f %7.1e\n", step, loss_a, loss_b, fabs((double)loss_a - loss_b));
    }
  }
  printf("\nlosses at most %.1e apart; the fastest update: plain loop %.3f ms, stepfuse %.3f ms\n",
         apart, plain_ms, fused_ms);
  stepfuse_args_destroy(f.args);
  stepfuse_step_destroy(f.step);
  gpt_destroy(a);
  gpt_destroy(b);
  free(ma);
  free(va);
  free(mb);
  free(vb);
  free(text.tokens);
  return apart <= 1e-5 && last < first ? 0 : 1;
}
