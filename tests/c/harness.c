// Stands behind a generated C kernel: reads tables and arrays from standard input, runs the step, and
// writes buffers and states to standard output. Knows the kernel's prelude.
#include <stdio.h>
#include <stdlib.h>

// A block is its length in bytes and that many bytes.
static uint64_t read_word(void) {
  uint64_t word;
  if (fread(&word, sizeof word, 1, stdin) != 1) exit(2);
  return word;
}
static void* read_block(uint64_t* bytes) {
  *bytes = read_word();
  char* block = aligned_alloc(64, (*bytes + 127) / 64 * 64);
  if (block == 0 || fread(block, 1, *bytes, stdin) != *bytes) exit(2);
  return block;
}
// A number of blocks, and where each stands.
static void* const* read_blocks(uint64_t* count, uint64_t** bytes) {
  *count = read_word();
  void** blocks = malloc((*count + 1) * sizeof *blocks);
  *bytes = malloc((*count + 1) * sizeof **bytes);
  for (uint64_t i = 0; i < *count; ++i) blocks[i] = read_block(*bytes + i);
  return blocks;
}
static void write_blocks(void* const* blocks, uint64_t count, const uint64_t* bytes) {
  for (uint64_t i = 0; i < count; ++i) fwrite(blocks[i], 1, bytes[i], stdout);
}

int main(void) {
  sf_context c;
  uint64_t bytes, buffers, states, count, *buffer_bytes, *state_bytes, *unused;
  c.chunks = read_block(&bytes);
  c.chunk_count = (uint32_t)(bytes / sizeof *c.chunks);
  c.tensors = read_block(&bytes);
  c.tensor_count = (uint32_t)(bytes / sizeof *c.tensors);
  c.bases = read_block(&bytes);
  c.group_count = (uint32_t)read_word();
  c.step_args = read_block(&bytes);
  c.group_args = read_block(&bytes);
  c.pointers = read_blocks(&buffers, &buffer_bytes);
  c.states = read_blocks(&states, &state_bytes);
  c.slots = read_blocks(&count, &unused);
  c.results = read_blocks(&count, &unused);
  c.scratch = read_blocks(&count, &unused);
  c.scalars = 0;
  for (int i = 0; i < 15; ++i) {
    uint32_t* members = read_block(&bytes);
    c.parts[i].members = bytes == 0 ? 0 : members;
    c.parts[i].begin = read_block(&bytes);
    c.parts[i].count = (uint32_t)(bytes / sizeof(uint32_t)) - 1;
  }
  sf_run(&c);
  write_blocks(c.pointers, buffers, buffer_bytes);
  write_blocks(c.states, states, state_bytes);
  return fflush(stdout) != 0;
}
