// A small GPT in plain C: forward, backward, and its parameters as named tensors in one array. Knows
// only the C library.
#ifndef STEPFUSE_SAMPLES_GPT_H
#define STEPFUSE_SAMPLES_GPT_H

#include <stddef.h>

enum {
  kContext = 32,
  kChannels = 48,
  kHeads = 4,
  kLayers = 2,
  kBatch = 8,
  kRows = kBatch * kContext,
  kPerLayer = 12,
  kTensors = 2 + kLayers * kPerLayer + 2
};

typedef struct tensor {
  const char* name;
  size_t offset;  // in params and grads
  size_t size;
  int decayed;  // matrices are, biases and norms are not
} tensor;

typedef struct gpt {
  int vocabulary;
  tensor tensors[kTensors];
  size_t count;  // of all parameters
  float* params;
  float* grads;
  struct activations* acts;
} gpt;

// The same seed and vocabulary give the same parameters. Exits if memory runs out.
gpt* gpt_create(int vocabulary, unsigned seed);
void gpt_destroy(gpt* model);

// The mean cross-entropy of predicting targets[i] after inputs[0..i] of its row of kContext tokens, and its
// gradient in model->grads. Both arrays have kRows tokens.
float gpt_forward_backward(gpt* model, const int* inputs, const int* targets);

#endif
