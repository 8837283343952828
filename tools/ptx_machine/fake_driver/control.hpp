// The tests' control of the fake driver, beyond CUDA's own calls. The same library exports it; find
// it with dlsym. The environment sets the same things before the first call (README.md).
#pragma once

#include <cstdint>

extern "C" {
// Calls of an exported function by its full name ("cuMemAlloc_v2") since the start or the last
// reset; of all functions for nullptr.
std::uint64_t stepfuse_fake_calls(const char* name);
void stepfuse_fake_reset_calls();
// Nesting depth of driver calls on this thread. Above 0, allocations and locks are the fake
// driver's own.
int stepfuse_fake_depth();

// Makes the `nth` call of the function from now on (1 is the next, 0 is every call) return `code`
// and do nothing. If `sticky`, the device is lost, and every later call returns `code` as well.
void stepfuse_fake_fail(const char* name, std::uint64_t nth, int code, int sticky);
// Stops the `nth` kernel from now on after `instructions` thread-instructions; the device is then
// lost with `code`.
void stepfuse_fake_lose_device(std::uint64_t nth, std::uint64_t instructions, int code);
// Hides the function from cuGetProcAddress.
void stepfuse_fake_hide(const char* base_name);

// Sets the seed of the interleavings; each launch increments it.
void stepfuse_fake_seed(std::uint64_t seed);
// With 1, a stream's work waits until a call asks for its completion. With 0, it is done at once.
void stepfuse_fake_lazy(int lazy);

std::uint64_t stepfuse_fake_instructions();  // thread-instructions of all kernels so far
std::uint64_t stepfuse_fake_launches();
std::uint64_t stepfuse_fake_blocks();        // of all launches
std::uint64_t stepfuse_fake_device_bytes();  // currently allocated
const char* stepfuse_fake_error();           // the machine's last message, or ""
// Forgets contexts, memory, faults, errors; reads the environment again.
void stepfuse_fake_reset();
}
