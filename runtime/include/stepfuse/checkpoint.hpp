// Saving and restoring a step's state: its states, the arrays that it initialises (moments, master weights, averages)
// and the states of its scaler. Knows the public API.
//
// The file is safetensors with these arrays (docs/checkpoints.md):
//   state.<name>             [values of the state]
//   scaler.<name>            [1], if the step has shared states
//   buffer.<name>.<tensor>   [elements], one per tensor of the layout, by its index
// and metadata: format "stepfuse-checkpoint", version "2", step, layout, index, xxh3_128.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <stepfuse/stepfuse.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

/// Saves a step's state. Waits for the device. The file is replaced as a whole or not at all; a link or a device is
/// not replaced.
/// @throws Error{device} if the file cannot be written; Error{bind} if an array is not bound
/// @thread one
void save_checkpoint(const std::string& path, const Step& step);

/// Names of states and buffers, as in "ema", in which step and file may differ.
struct LoadOptions {
  /// The file need not have these. They keep the values of init_state(), which is called before.
  std::vector<std::string> optional = {};
  /// The file may have these though the step does not.
  std::vector<std::string> ignored = {};
};

/// Loads a step's state and continues the numbers of steps. It checks everything before it changes anything, so that
/// an error leaves the step as it was. Only a disk that fails between check and load leaves a part of the file in the
/// step: load again.
/// @throws Error{usage} for a truncated, damaged or foreign file, or one of a different step or layout; Error{bind} if
///         an array is not bound; Error{device}
/// @thread one
void load_checkpoint(const std::string& path, Step& step, const LoadOptions& options = {});

/// Writes the checkpoint `from` to `to` with its moments in a different form, named as by option --moments: "f32",
/// "fp8", or per moment "exp_avg=int8,exp_avg_sq@4096=sqrt8". Tensors with fewer than `below` elements have f32, unless
/// '@' gives a moment a number of its own; for shards the size of the full tensor counts. All other values keep their
/// bits.
/// @throws Error{usage} for an unknown form or a file that is not a checkpoint; Error{device}
/// @thread any
void convert_checkpoint(const std::string& from, const std::string& to, std::string_view moments,
                        uint64_t below = 0);

}  // namespace stepfuse
#pragma GCC visibility pop
