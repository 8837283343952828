// A variant as machine code: emission, the ladder of launch bounds, NVRTC, the disk cache. Knows the
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
  CudaOptions options;  // of the rung
  std::string code;
  std::vector<KernelResources> kernels;  // cubins compiled by this process only
  bool from_disk = false;
  std::string preimage;  // of its entry in the disk cache
  double emit_ms = 0;
  double compile_ms = 0;  // of all rungs tried
};

// Which code a device gets: a cubin of its own arch, or of the nearest one that it runs; PTX where
// it is newer than NVRTC. $STEPFUSE_CUDA_CODE = ptx or cubin forces either. Throws Error{device}.
struct CodeTarget {
  CodeKind kind = CodeKind::cubin;
  int arch = 0;
  std::string options;  // of the emitter that are not left to us, as in compiler/cuda/options.hpp
  bool line_info = false;   // of the text, for readers of the code; never for the disk cache
  std::string key() const;  // for variant keys, with NVRTC's version and options
};
CodeTarget choose_target(int device_arch);

// nvrtc_compile() for a variant's text; an Error{compile} names the files that were kept (.sf, .cu, a
// layout) and the command that replays them.
CompiledCode compile_or_keep(const Variant& variant, const std::string& text,
                             const CodeTarget& target);

// Launch bounds and unrolling, best first: a step takes the first rung without a spill, or with a
// small one where kSpilledWhereEncoded allows it. Begins where the step's live values lead one to
// expect none; options that the target names hold on every rung.
std::vector<CudaOptions> launch_ladder(const KernelPlan& plan, const CodeTarget& target);
// The text of the first rung: what says in a key which emitter it was.
std::string first_text(const KernelPlan& plan, const CodeTarget& target);

// Compiles down the ladder, whatever the disk cache has; throws what compile_or_keep() throws.
StepCode compile_fresh(const Variant& variant, const CodeTarget& target);

// What was compiled ahead of time for such a device, best first until `take` accepts one, which it
// returns: a cubin of its own arch or of the nearest that it runs, then PTX of the nearest arch.
// $STEPFUSE_CUDA_CODE holds here, too.
bool find_shipped_code(const Variant& variant, int device_arch, const std::string& options,
                       const std::function<bool(const StepCode&)>& take);

// The same through the disk cache; `key` is the variant's. If the driver refuses what came from disk,
// remove the entry `preimage` and ask again.
StepCode compile_step(const Variant& variant, const CodeTarget& target, const std::string& key);

}  // namespace stepfuse::cuda
