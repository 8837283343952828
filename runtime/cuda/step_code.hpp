// Makes a variant's machine code: emission, the ladder of launch bounds, NVRTC, the disk cache. Knows the
// compiler and NVRTC; needs no GPU.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/cuda/emit.hpp"
#include "compiler/variant.hpp"
#include "runtime/cuda/nvrtc.hpp"

namespace stepfuse::cuda {

struct StepCode {
  CodeKind kind = CodeKind::cubin;
  int arch = 0;
  CudaOptions options;  // the options of the ladder's rung that was taken
  std::string code;
  std::vector<KernelResources> kernels;  // only of cubins that this process compiled
  bool from_disk = false;
  std::string preimage;  // of the entry in the disk cache
  double emit_ms = 0;
  double compile_ms = 0;  // over all rungs tried
};

// The code that a device gets: a cubin for its own arch, or for the nearest one that it can run, or PTX if
// the device is newer than NVRTC. $STEPFUSE_CUDA_CODE = ptx or cubin forces either. Throws Error{device}.
struct CodeTarget {
  CodeKind kind = CodeKind::cubin;
  int arch = 0;
  // Options that the caller fixes for the emitter, as in compiler/cuda/options.hpp.
  std::string options;
  bool line_info = false;   // adds line information of the text; never for the disk cache
  std::string key() const;  // the target's part of a variant key, with NVRTC's version and options
};
CodeTarget choose_target(int device_arch);

// Compiles a variant's text by nvrtc_compile(). An Error{compile} names the files that were kept (.sf, .cu,
// a layout) and the command that replays them.
CompiledCode compile_or_keep(const Variant& variant, const std::string& text,
                             const CodeTarget& target);

// Launch bounds and unrolling, best first. A step takes the first rung without spills, or with few spilled
// bytes if kSpilledWhereEncoded allows them. The first rung is chosen by the step's number of live values.
// Options that the target names apply to every rung.
std::vector<CudaOptions> launch_ladder(const KernelPlan& plan, const CodeTarget& target);
// Returns the text of the first rung. In a key it identifies the emitter.
std::string first_text(const KernelPlan& plan, const CodeTarget& target);

// Compiles down the ladder without reading the disk cache; throws what compile_or_keep() throws.
StepCode compile_fresh(const Variant& variant, const CodeTarget& target);

// Offers `take` the code compiled ahead of time for such a device, best first: a cubin for its own arch or
// for the nearest that it can run, then PTX of the nearest arch. Returns whether `take` accepted any.
// $STEPFUSE_CUDA_CODE applies here, too.
bool find_shipped_code(const Variant& variant, int device_arch, const std::string& options,
                       const std::function<bool(const StepCode&)>& take);

// Reads the code from the disk cache or compiles it; `key` is the variant's. If the driver refuses code
// from disk, remove the entry `preimage` and call this again.
StepCode compile_step(const Variant& variant, const CodeTarget& target, const std::string& key);

}  // namespace stepfuse::cuda
