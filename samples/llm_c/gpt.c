// The layers of a GPT, forward and backward, written out as formulas. Knows only the C library.
#include "samples/llm_c/gpt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWidth = 4 * kChannels, kHeadSize = kChannels / kHeads };

typedef struct norm_acts {
  float out[kRows * kChannels];
  float mean[kRows], scale[kRows];  // scale: 1 / standard deviation
} norm_acts;

typedef struct layer_acts {
  norm_acts norm1, norm2;
  float qkv[kRows * 3 * kChannels];
  float probabilities[kBatch * kHeads * kContext * kContext];
  float mixed[kRows * kChannels];     // values weighted by attention
  float attended[kRows * kChannels];  // the residual stream after attention
  float hidden[kRows * kWidth], active[kRows * kWidth];
  float out[kRows * kChannels];  // the residual stream after the layer
} layer_acts;

// Values that forward saves for backward, and backward's gradients of activations.
struct activations {
  float embedded[kRows * kChannels];
  layer_acts layers[kLayers];
  norm_acts last;
  float* logits;  // [kRows][vocabulary]: probabilities, later their gradients
  float d_stream[kRows * kChannels], d_small[kRows * kChannels];
  float d_wide[kRows * kWidth], d_hidden[kRows * kWidth], d_qkv[kRows * 3 * kChannels];
};

// --- parameters

enum {
  kNorm1W,
  kNorm1B,
  kQkvW,
  kQkvB,
  kProjW,
  kProjB,
  kNorm2W,
  kNorm2B,
  kUpW,
  kUpB,
  kDownW,
  kDownB
};

static void* need(void* memory) {
  if (memory == NULL) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  return memory;
}

static float uniform(unsigned* state) {  // in [-1, 1)
  *state = *state * 1664525U + 1013904223U;
  return (float)(*state >> 8) / 8388608.0F - 1.0F;
}

static void lay_out(gpt* model) {
  static const char* const kNames[kPerLayer] = {"norm1.w", "norm1.b", "qkv.w",   "qkv.b",
                                                "proj.w",  "proj.b",  "norm2.w", "norm2.b",
                                                "up.w",    "up.b",    "down.w",  "down.b"};
  static const size_t kSizes[kPerLayer] = {kChannels,
                                           kChannels,
                                           kChannels * 3 * kChannels,
                                           3 * kChannels,
                                           kChannels * kChannels,
                                           kChannels,
                                           kChannels,
                                           kChannels,
                                           kChannels * kWidth,
                                           kWidth,
                                           kWidth * kChannels,
                                           kChannels};
  tensor* t = model->tensors;
  int i;
  *t++ = (tensor){"tokens", 0, (size_t)model->vocabulary * kChannels, 1};
  *t++ = (tensor){"positions", 0, kContext * kChannels, 1};
  for (i = 0; i < kLayers * kPerLayer; ++i) {
    const char* name = kNames[i % kPerLayer];
    *t++ = (tensor){name, 0, kSizes[i % kPerLayer], strchr(name, 'b') == NULL && name[0] != 'n'};
  }
  *t++ = (tensor){"norm.w", 0, kChannels, 0};
  *t++ = (tensor){"norm.b", 0, kChannels, 0};
  for (i = 0; i < kTensors; ++i) {
    model->tensors[i].offset = model->count;
    model->count += model->tensors[i].size;
  }
}

gpt* gpt_create(int vocabulary, unsigned seed) {
  gpt* model = need(calloc(1, sizeof *model));
  int i;
  size_t j;
  model->vocabulary = vocabulary;
  lay_out(model);
  model->params = need(calloc(model->count, sizeof(float)));
  model->grads = need(calloc(model->count, sizeof(float)));
  model->acts = need(calloc(1, sizeof *model->acts));
  model->acts->logits = need(calloc((size_t)kRows * (size_t)vocabulary, sizeof(float)));
  for (i = 0; i < kTensors; ++i) {
    const tensor* t = &model->tensors[i];
    int is_norm_weight = strncmp(t->name, "norm", 4) == 0 && strchr(t->name, 'w') != NULL;
    for (j = 0; j < t->size; ++j) {
      model->params[t->offset + j] = is_norm_weight ? 1.0F
                                     : t->decayed   ? 0.05F * uniform(&seed)
                                                    : 0;
    }
  }
  return model;
}

void gpt_destroy(gpt* model) {
  if (model == NULL) return;
  free(model->acts->logits);
  free(model->acts);
  free(model->grads);
  free(model->params);
  free(model);
}

// --- layers: weights are [in][out], and gradients are accumulated

static void linear(float* out, const float* in, const float* weight, const float* bias,
                   int width_in, int width_out) {
  int row, i, o;
  for (row = 0; row < kRows; ++row, in += width_in, out += width_out) {
    for (o = 0; o < width_out; ++o) out[o] = bias[o];
    for (i = 0; i < width_in; ++i) {
      const float* w = weight + (size_t)i * (size_t)width_out;
      for (o = 0; o < width_out; ++o) out[o] += in[i] * w[o];
    }
  }
}

// Overwrites d_in.
static void linear_backward(float* d_in, float* d_weight, float* d_bias, const float* d_out,
                            const float* in, const float* weight, int width_in, int width_out) {
  int row, i, o;
  for (row = 0; row < kRows; ++row) {
    const float* dy = d_out + (size_t)row * (size_t)width_out;
    const float* x = in + (size_t)row * (size_t)width_in;
    for (o = 0; o < width_out; ++o) d_bias[o] += dy[o];
    for (i = 0; i < width_in; ++i) {
      const float* w = weight + (size_t)i * (size_t)width_out;
      float* dw = d_weight + (size_t)i * (size_t)width_out;
      float sum = 0;
      for (o = 0; o < width_out; ++o) {
        sum += dy[o] * w[o];
        dw[o] += dy[o] * x[i];
      }
      d_in[(size_t)row * (size_t)width_in + (size_t)i] = sum;
    }
  }
}

static void norm(norm_acts* to, const float* in, const float* weight, const float* bias) {
  int row, c;
  for (row = 0; row < kRows; ++row, in += kChannels) {
    float mean = 0, variance = 0, scale;
    for (c = 0; c < kChannels; ++c) mean += in[c];
    mean /= kChannels;
    for (c = 0; c < kChannels; ++c) variance += (in[c] - mean) * (in[c] - mean);
    scale = 1.0F / sqrtf(variance / kChannels + 1e-5F);
    for (c = 0; c < kChannels; ++c) {
      to->out[row * kChannels + c] = (in[c] - mean) * scale * weight[c] + bias[c];
    }
    to->mean[row] = mean;
    to->scale[row] = scale;
  }
}

// Adds to d_in, because the residual stream bypasses the norm.
static void norm_backward(float* d_in, float* d_weight, float* d_bias, const float* d_out,
                          const norm_acts* acts, const float* in, const float* weight) {
  int row, c;
  for (row = 0; row < kRows; ++row, in += kChannels, d_in += kChannels, d_out += kChannels) {
    float mean_d = 0, mean_dx = 0;
    for (c = 0; c < kChannels; ++c) {
      float x = (in[c] - acts->mean[row]) * acts->scale[row];
      float d = d_out[c] * weight[c];
      d_weight[c] += d_out[c] * x;
      d_bias[c] += d_out[c];
      mean_d += d;
      mean_dx += d * x;
    }
    mean_d /= kChannels;
    mean_dx /= kChannels;
    for (c = 0; c < kChannels; ++c) {
      float x = (in[c] - acts->mean[row]) * acts->scale[row];
      d_in[c] += (d_out[c] * weight[c] - mean_d - x * mean_dx) * acts->scale[row];
    }
  }
}

// Index of the query (0), key (1) or value (2) of one head in row `t` of a sequence.
static size_t qkv_at(int sequence, int t, int which, int head) {
  return ((size_t)sequence * kContext + (size_t)t) * 3 * kChannels +
         (size_t)(which * kChannels + head * kHeadSize);
}

static float* probabilities_at(layer_acts* a, int sequence, int head, int t) {
  return a->probabilities + ((size_t)(sequence * kHeads + head) * kContext + (size_t)t) * kContext;
}

static float dot(const float* a, const float* b) {
  float sum = 0;
  int i;
  for (i = 0; i < kHeadSize; ++i) sum += a[i] * b[i];
  return sum;
}

static void attend_one(layer_acts* a, int sequence, int head, int t) {
  float* p = probabilities_at(a, sequence, head, t);
  float* out = a->mixed + ((size_t)sequence * kContext + (size_t)t) * kChannels + head * kHeadSize;
  const float factor = 1.0F / sqrtf(kHeadSize);
  float most = -1e30F, sum = 0;
  int s, i;
  for (s = 0; s <= t; ++s) {
    p[s] =
        factor * dot(a->qkv + qkv_at(sequence, t, 0, head), a->qkv + qkv_at(sequence, s, 1, head));
    most = p[s] > most ? p[s] : most;
  }
  for (s = 0; s <= t; ++s) sum += p[s] = expf(p[s] - most);
  memset(out, 0, kHeadSize * sizeof(float));
  for (s = 0; s <= t; ++s) {
    const float* value = a->qkv + qkv_at(sequence, s, 2, head);
    p[s] /= sum;
    for (i = 0; i < kHeadSize; ++i) out[i] += p[s] * value[i];
  }
}

static void attend_one_backward(float* d_qkv, const float* d_mixed, layer_acts* a, int sequence,
                                int head, int t) {
  const float* p = probabilities_at(a, sequence, head, t);
  const float* d_out =
      d_mixed + ((size_t)sequence * kContext + (size_t)t) * kChannels + head * kHeadSize;
  const float* query = a->qkv + qkv_at(sequence, t, 0, head);
  float* d_query = d_qkv + qkv_at(sequence, t, 0, head);
  const float factor = 1.0F / sqrtf(kHeadSize);
  float expected = 0;
  int s, i;
  for (s = 0; s <= t; ++s) expected += p[s] * dot(d_out, a->qkv + qkv_at(sequence, s, 2, head));
  for (s = 0; s <= t; ++s) {
    const float* key = a->qkv + qkv_at(sequence, s, 1, head);
    float* d_key = d_qkv + qkv_at(sequence, s, 1, head);
    float* d_value = d_qkv + qkv_at(sequence, s, 2, head);
    float d_score = dot(d_out, a->qkv + qkv_at(sequence, s, 2, head));
    d_score = p[s] * (d_score - expected) * factor;
    for (i = 0; i < kHeadSize; ++i) {
      d_value[i] += p[s] * d_out[i];
      d_query[i] += d_score * key[i];
      d_key[i] += d_score * query[i];
    }
  }
}

static void for_all_heads(float* d_qkv, const float* d_mixed, layer_acts* a) {
  int sequence, head, t;
  for (sequence = 0; sequence < kBatch; ++sequence) {
    for (head = 0; head < kHeads; ++head) {
      for (t = 0; t < kContext; ++t) {
        if (d_qkv == NULL) {
          attend_one(a, sequence, head, t);
        } else {
          attend_one_backward(d_qkv, d_mixed, a, sequence, head, t);
        }
      }
    }
  }
}

static const float kGeluFactor = 0.7978845608F;  // sqrt(2 / pi)

static float gelu(float x) {
  return 0.5F * x * (1 + tanhf(kGeluFactor * (x + 0.044715F * x * x * x)));
}

static float gelu_slope(float x) {
  float t = tanhf(kGeluFactor * (x + 0.044715F * x * x * x));
  return 0.5F * (1 + t) + 0.5F * x * (1 - t * t) * kGeluFactor * (1 + 0.134145F * x * x);
}

// --- the model

static void forward_layer(layer_acts* a, const float* in, const tensor* t, const float* p) {
  int i;
  norm(&a->norm1, in, p + t[kNorm1W].offset, p + t[kNorm1B].offset);
  linear(a->qkv, a->norm1.out, p + t[kQkvW].offset, p + t[kQkvB].offset, kChannels, 3 * kChannels);
  for_all_heads(NULL, NULL, a);
  linear(a->attended, a->mixed, p + t[kProjW].offset, p + t[kProjB].offset, kChannels, kChannels);
  for (i = 0; i < kRows * kChannels; ++i) a->attended[i] += in[i];
  norm(&a->norm2, a->attended, p + t[kNorm2W].offset, p + t[kNorm2B].offset);
  linear(a->hidden, a->norm2.out, p + t[kUpW].offset, p + t[kUpB].offset, kChannels, kWidth);
  for (i = 0; i < kRows * kWidth; ++i) a->active[i] = gelu(a->hidden[i]);
  linear(a->out, a->active, p + t[kDownW].offset, p + t[kDownB].offset, kWidth, kChannels);
  for (i = 0; i < kRows * kChannels; ++i) a->out[i] += a->attended[i];
}

// d_stream is the gradient of the layer's output on entry, and of its input on return.
static void backward_layer(struct activations* w, layer_acts* a, const float* in, const tensor* t,
                           const float* p, float* g) {
  int i;
  linear_backward(w->d_wide, g + t[kDownW].offset, g + t[kDownB].offset, w->d_stream, a->active,
                  p + t[kDownW].offset, kWidth, kChannels);
  for (i = 0; i < kRows * kWidth; ++i) w->d_hidden[i] = w->d_wide[i] * gelu_slope(a->hidden[i]);
  linear_backward(w->d_small, g + t[kUpW].offset, g + t[kUpB].offset, w->d_hidden, a->norm2.out,
                  p + t[kUpW].offset, kChannels, kWidth);
  norm_backward(w->d_stream, g + t[kNorm2W].offset, g + t[kNorm2B].offset, w->d_small, &a->norm2,
                a->attended, p + t[kNorm2W].offset);
  linear_backward(w->d_small, g + t[kProjW].offset, g + t[kProjB].offset, w->d_stream, a->mixed,
                  p + t[kProjW].offset, kChannels, kChannels);
  memset(w->d_qkv, 0, sizeof w->d_qkv);
  for_all_heads(w->d_qkv, w->d_small, a);
  linear_backward(w->d_small, g + t[kQkvW].offset, g + t[kQkvB].offset, w->d_qkv, a->norm1.out,
                  p + t[kQkvW].offset, kChannels, 3 * kChannels);
  norm_backward(w->d_stream, g + t[kNorm1W].offset, g + t[kNorm1B].offset, w->d_small, &a->norm1,
                in, p + t[kNorm1W].offset);
}

// Returns the loss and replaces the logits by their gradients.
static float predict(gpt* model, const int* targets) {
  const float* tokens = model->params;  // the first tensor, used transposed
  float* row = model->acts->logits;
  const float* x = model->acts->last.out;
  double loss = 0;
  int r, v, c;
  for (r = 0; r < kRows; ++r, row += model->vocabulary, x += kChannels) {
    float most = -1e30F, sum = 0;
    for (v = 0; v < model->vocabulary; ++v) {
      row[v] = 0;
      for (c = 0; c < kChannels; ++c) row[v] += x[c] * tokens[v * kChannels + c];
      most = row[v] > most ? row[v] : most;
    }
    for (v = 0; v < model->vocabulary; ++v) sum += row[v] = expf(row[v] - most);
    for (v = 0; v < model->vocabulary; ++v) row[v] /= sum;
    loss -= log(row[targets[r]]);
    row[targets[r]] -= 1;
    for (v = 0; v < model->vocabulary; ++v) row[v] /= kRows;
  }
  return (float)(loss / kRows);
}

static void backward(gpt* model, const int* inputs) {
  struct activations* w = model->acts;
  const float* p = model->params;
  float* g = model->grads;
  const tensor* end = &model->tensors[kTensors - 2];
  int r, v, c, layer;
  memset(g, 0, model->count * sizeof(float));
  memset(w->d_small, 0, sizeof w->d_small);
  memset(w->d_stream, 0, sizeof w->d_stream);
  for (r = 0; r < kRows; ++r) {
    for (v = 0; v < model->vocabulary; ++v) {
      float d = w->logits[r * model->vocabulary + v];
      for (c = 0; c < kChannels; ++c) {
        w->d_small[r * kChannels + c] += d * p[v * kChannels + c];
        g[v * kChannels + c] += d * w->last.out[r * kChannels + c];
      }
    }
  }
  norm_backward(w->d_stream, g + end[0].offset, g + end[1].offset, w->d_small, &w->last,
                w->layers[kLayers - 1].out, p + end[0].offset);
  for (layer = kLayers - 1; layer >= 0; --layer) {
    const float* in = layer > 0 ? w->layers[layer - 1].out : w->embedded;
    backward_layer(w, &w->layers[layer], in, &model->tensors[2 + layer * kPerLayer], p, g);
  }
  for (r = 0; r < kRows; ++r) {
    float* d_token = g + (size_t)inputs[r] * kChannels;
    float* d_position = g + model->tensors[1].offset + (size_t)(r % kContext) * kChannels;
    for (c = 0; c < kChannels; ++c) {
      d_token[c] += w->d_stream[r * kChannels + c];
      d_position[c] += w->d_stream[r * kChannels + c];
    }
  }
}

float gpt_forward_backward(gpt* model, const int* inputs, const int* targets) {
  struct activations* w = model->acts;
  const float* p = model->params;
  const tensor* end = &model->tensors[kTensors - 2];
  const float* stream = w->embedded;
  float loss;
  int r, c, layer;
  for (r = 0; r < kRows; ++r) {
    const float* token = p + (size_t)inputs[r] * kChannels;
    const float* position = p + model->tensors[1].offset + (size_t)(r % kContext) * kChannels;
    for (c = 0; c < kChannels; ++c) w->embedded[r * kChannels + c] = token[c] + position[c];
  }
  for (layer = 0; layer < kLayers; ++layer) {
    forward_layer(&w->layers[layer], stream, &model->tensors[2 + layer * kPerLayer], p);
    stream = w->layers[layer].out;
  }
  norm(&w->last, stream, p + end[0].offset, p + end[1].offset);
  loss = predict(model, targets);
  backward(model, inputs);
  return loss;
}
