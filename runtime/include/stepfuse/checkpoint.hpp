// Saving and restoring what a step has learned: its persistent states, the arrays it initialises
// itself (moments, master weights, averages) and its scaler's states. Knows the public API.
//
// The file is safetensors with these arrays, and is described in docs/checkpoints.md:
//   state.<name>             [members of its domain]
//   scaler.<name>            [1], where the step has shared states
//   buffer.<name>.<tensor>   [elements], one per tensor of the layout, by its index
// and metadata: format "stepfuse-checkpoint", version "1", step, layout, xxh3_128.
#pragma once

#include <string>

#include <stepfuse/stepfuse.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// Waits for the device. The file is replaced whole or not at all. Throws Error{device} when it cannot
// be written, Error{bind} when an array is not bound.
void save_checkpoint(const std::string& path, const Step& step);

// Everything is checked before anything is changed: a truncated, damaged or foreign file, or one of
// another step or layout, throws Error{usage} with its reason and leaves the step as it was.
void load_checkpoint(const std::string& path, Step& step);

}  // namespace stepfuse
#pragma GCC visibility pop
