// The step kernel of kernels/step.cu on the machine: its inputs, a launch, the host's reference.
#pragma once

#include <string>
#include <vector>

#include "tools/ptx_machine/machine.hpp"

namespace ptx::step {

inline constexpr u32 kPiece = 4096;
inline constexpr u32 kLanes = 512;
inline constexpr u32 kThreads = 128;

struct TensorShape {
  u64 size = 0;
  u32 dtype = 0;  // of gradients: 0 f32, 1 f16, 2 bf16
  bool present = true;
  // of the bound tensor's first element: earlier elements exist, but have no chunk
  u64 first_element = 0;
};

// The inputs and outputs of a step, on the host.
struct Data {
  struct Tensor {
    TensorShape shape;
    std::vector<float> grad;  // exactly representable in the dtype
    std::vector<float> master, exp_avg;
    std::vector<u16> weight;
    bool operator==(const Tensor&) const;
  };
  std::vector<Tensor> tensors;
  double steps = 0;
  float max_norm = 1.0f;
  double lr = 1e-3;
  double beta = 0.9;
};

Data make_data(const std::vector<TensorShape>& shapes, u64 seed);

// Computes the same step on the host, with the same operations in the same order.
void reference_step(Data& data);

struct RunOptions {
  u32 blocks = 3;
  u64 seed = 1;
  u64 step_limit = 400'000'000;
  Checks checks;
  bool incoherent = false;
  bool cooperative = true;
  u32 misalign = 0;             // bytes by which every buffer is shifted
  bool zero_workspace = false;  // makes only the order of accesses wrong, not a value
};

// Uploads `data`, launches, and downloads into `data`.
Counters run_step(const std::string& ptx, Data& data, const RunOptions& options);

// kernels/step.cu, with `from` (which must occur) replaced by `to`, compiled for `arch`.
struct Edit {
  std::string from, to;
};
std::string step_ptx(int arch, const std::vector<Edit>& edits = {});

}  // namespace ptx::step
