// What tests ask of the fake driver beyond CUDA's own calls: exported by the same library, to be
// found with dlsym. The environment sets the same things before the first call (README.md).
#pragma once

#include <cstdint>

extern "C" {
// Calls of an exported function by its full name ("cuMemAlloc_v2"), since the start or the reset;
// of all functions for nullptr.
std::uint64_t stepfuse_fake_calls(const char* name);
void stepfuse_fake_reset_calls();
// How many of the driver's functions the calling thread is in: what it allocates or locks then is the
// fake driver's own doing.
int stepfuse_fake_depth();

// The `nth` call of the function from now on (1 is the next) returns `code` and does nothing; 0:
// every call. `sticky`: the device is lost, and every later call returns `code` as well.
void stepfuse_fake_fail(const char* name, std::uint64_t nth, int code, int sticky);
// The `nth` kernel from now on stops after so many thread-instructions, and the device is lost with
// `code`.
void stepfuse_fake_lose_device(std::uint64_t nth, std::uint64_t instructions, int code);
// cuGetProcAddress no longer finds the function.
void stepfuse_fake_hide(const char* base_name);

// The seed of the interleavings; each launch then counts on from it.
void stepfuse_fake_seed(std::uint64_t seed);
// 1: a stream's work waits until something asks for its completion. 0: it is done at once.
void stepfuse_fake_lazy(int lazy);

std::uint64_t stepfuse_fake_instructions();  // thread-instructions of all kernels so far
std::uint64_t stepfuse_fake_launches();
std::uint64_t stepfuse_fake_blocks();        // of all launches
std::uint64_t stepfuse_fake_device_bytes();  // allocated now
const char* stepfuse_fake_error();           // what the machine said last, "" if nothing
// Forgets contexts, memory, faults, errors; reads the environment again.
void stepfuse_fake_reset();
}
