// Saving and restoring what a step has learned: its persistent states, the arrays it initialises
// itself (moments, master weights, averages) and its scaler's states. Knows the public API.
//
// The file is safetensors with these arrays, and is described in docs/checkpoints.md:
//   state.<name>             [members of its domain]
//   scaler.<name>            [1], where the step has shared states
//   buffer.<name>.<tensor>   [elements], one per tensor of the layout, by its index
// and metadata: format "stepfuse-checkpoint", version "2", step, layout, index, xxh3_128.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// Waits for the device. The file is replaced whole or not at all; a link or device is not replaced.
// Throws Error{device} when it cannot be written, Error{bind} when an array is not bound.
void save_checkpoint(const std::string& path, const Step& step);

// What of step and file need not agree, by the names of states and buffers, as in "ema".
struct LoadOptions {
  // The file may lack these: they keep what init_state(), called before, gave them.
  std::vector<std::string> optional = {};
  // The file may hold these though the step does not have them.
  std::vector<std::string> ignored = {};
};

// Everything is checked before anything is changed: a truncated, damaged or foreign file, or one of
// another step or layout, throws Error{usage} with its reason and leaves the step as it was. (Only a
// disk that fails between check and load leaves a part of it: load again.) Steps are numbered on from
// the saved one.
void load_checkpoint(const std::string& path, Step& step, const LoadOptions& options = {});

// Writes the checkpoint `from` to `to` with its moments in another form, as option --moments names
// it: "f32", "fp8", of some "exp_avg=int8|exp_avg_sq@4096=sqrt8"; tensors of fewer than `below`
// elements, shards by their full tensor's, have f32, unless '@' gives a number of their own. What has that form
// already, and all else, keeps its bits.
void convert_checkpoint(const std::string& from, const std::string& to, std::string_view moments,
                        uint64_t below = 0);

}  // namespace stepfuse
#pragma GCC visibility pop
