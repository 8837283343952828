// Compiles a variant for one arch, or reads the code from disk. Knows the compiler, NVRTC, the disk cache
// and fmt.
//
// Launch bounds and unrolling come from a ladder that goes down while ptxas reports spills.
#include "runtime/cuda/step_code.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>

#include <stepfuse/error.hpp>

#include "compiler/plan/traffic.hpp"
#include "runtime/caches/disk_cache.hpp"
#include "runtime/caches/kernel_folder.hpp"
#include "runtime/caches/variant_key.hpp"
#include "runtime/cuda/nvrtc_facts.hpp"
#include "runtime/cuda/tuning.hpp"
#include "runtime/saved/reproducer.hpp"

namespace stepfuse::cuda {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

// Whether a thread spills more than `most` bytes, or its stack frame is larger than its spilled registers.
bool spills(const CompiledCode& code, int most) {
  return std::any_of(code.kernels.begin(), code.kernels.end(), [&](const KernelResources& k) {
    return k.uses_local_memory() &&
           (k.spill_store_bytes > most || k.stack_bytes > (k.spill_store_bytes + 7) / 8 * 8);
  });
}

std::string_view kind_name(CodeKind kind) { return kind == CodeKind::cubin ? "cubin" : "ptx"; }

CompiledCode compile_rung(const Variant& variant, const CodeTarget& target, const CudaOptions& rung,
                          StepCode* out) {
  auto start = std::chrono::steady_clock::now();
  std::string text = emit_cuda(variant.plan, rung);
  out->emit_ms += milliseconds_since(start);
  CompiledCode code = compile_or_keep(variant, text, target);
  out->compile_ms += code.milliseconds;
  out->options = rung;
  return code;
}

// Whether some phase that writes loads at least `least` and fewer than `less_than` bytes per thread and
// tile.
bool loads(const KernelPlan& plan, uint32_t least, uint32_t less_than) {
  for (const PhaseTraffic& phase : traffic_of(plan, 0).phases) {
    double read = 0, written = 0;
    for (const ArrayTraffic& a : phase.arrays) {
      read += a.read;
      written += a.written;
    }
    auto tile = static_cast<uint32_t>(4 * read);
    if (written != 0 && tile >= least && tile < less_than) return true;
  }
  return false;
}

// Below 48 bytes the registers suffice for twice as many tiles, and unrolling is needed. A phase that loads
// at most 32 bytes processes several tiles at a time already.
bool wants_unrolling(const KernelPlan& plan) { return loads(plan, 33, 48); }

// Three blocks have less than 56 KiB in flight, and the registers of a fourth block do not suffice for
// larger loads than these.
bool wants_four_blocks(const KernelPlan& plan) {
  return !wants_unrolling(plan) && loads(plan, 48, 72);
}

// Whether a turn encodes more than one value. Such a turn is long, and its registers almost fit for three
// blocks.
bool encodes_two(const KernelPlan& plan) {
  return std::any_of(plan.phases.begin(), plan.phases.end(), [](const plan::Phase& phase) {
    return std::any_of(phase.bodies.begin(), phase.bodies.end(),
                       [](const plan::Body& body) { return body.encodes_two(); });
  });
}

// Returns $STEPFUSE_CUDA_CODE: "ptx", "cubin", or "".
std::string_view forced_kind() {
  const char* forced = std::getenv("STEPFUSE_CUDA_CODE");
  std::string_view wanted = forced != nullptr ? forced : "";
  if (!wanted.empty() && wanted != "ptx" && wanted != "cubin") {
    throw Error(ErrorKind::usage, fmt::format("STEPFUSE_CUDA_CODE={} is neither ptx nor cubin",
                                              wanted.substr(0, 40)));
  }
  return wanted;
}

}  // namespace

CompiledCode compile_or_keep(const Variant& variant, const std::string& text,
                             const CodeTarget& target) {
  try {
    return nvrtc_compile({.text = text,
                          .name = variant.program.name,
                          .arch = target.arch,
                          .kind = target.kind,
                          .line_info = target.line_info});
  } catch (const Error& e) {
    std::string arch = fmt::format("sm_{}", target.arch);
    if (e.kind() == ErrorKind::device) {
      throw Error(e.kind(), e.what() + not_shipped(variant, arch), e.loc());
    }
    if (e.kind() != ErrorKind::compile) throw;
    std::string command = fmt::format("dump --emit={} --arch={}", kind_name(target.kind), arch);
    if (!target.options.empty()) command += " --cuda-options=" + target.options;
    throw Error(e.kind(), e.what() + keep_reproducer({.variant = variant,
                                                      .text = text,
                                                      .suffix = "cu",
                                                      .target = arch,
                                                      .command = command}));
  }
}

std::vector<CudaOptions> launch_ladder(const KernelPlan& plan, const CodeTarget& target) {
  static constexpr CudaOptions kRungs[] = {
      {.min_blocks = 4, .unroll = 1}, {.min_blocks = 3, .unroll = 2},
      {.min_blocks = 3, .unroll = 1}, {.min_blocks = 2, .unroll = 1},
      {.min_blocks = 1, .unroll = 1},
  };
  std::vector<CudaOptions> ladder;
  for (const CudaOptions& rung : kRungs) {
    if (rung.unroll == 2 && (!wants_unrolling(plan) || encodes_two(plan))) continue;
    if (rung.min_blocks == 4 &&
        (!wants_four_blocks(plan) || tuning_of(target.arch).most_blocks < 4))
      continue;
    CudaOptions options = with_options(rung, target.options);
    options.arch = target.arch;
    if (ladder.empty() || ladder.back() != options) ladder.push_back(options);
  }
  return ladder;
}

std::string first_text(const KernelPlan& plan, const CodeTarget& target) {
  return emit_cuda(plan, launch_ladder(plan, target)[0]);
}

std::string CodeTarget::key() const {
  const NvrtcFacts& nvrtc = nvrtc_facts();
  return fmt::format("cuda {} sm_{}{}{}, NVRTC {}.{}, {}", kind_name(kind), arch,
                     options.empty() ? "" : ", ", options, nvrtc.major, nvrtc.minor,
                     fmt::join(nvrtc_options(arch, kind), " "));
}

bool find_shipped_code(const Variant& variant, int device_arch, const std::string& options,
                       const std::function<bool(const StepCode&)>& take) {
  std::vector<CodeTarget> targets;
  std::string_view forced = forced_kind();
  for (const std::string& name : shipped_targets()) {
    bool cubin = name.starts_with("sm_"), ptx = name.starts_with("compute_");
    if ((!cubin && !ptx) || forced == (cubin ? "ptx" : "cubin")) continue;
    CodeTarget target{.kind = cubin ? CodeKind::cubin : CodeKind::ptx,
                      .arch = std::atoi(name.c_str() + name.find('_') + 1),
                      .options = options};
    bool runs = target.arch <= device_arch && (ptx || target.arch / 10 == device_arch / 10);
    if (runs) targets.push_back(std::move(target));
  }
  std::sort(targets.begin(), targets.end(), [](const CodeTarget& a, const CodeTarget& b) {
    return std::pair(a.kind == CodeKind::cubin, a.arch) >
           std::pair(b.kind == CodeKind::cubin, b.arch);
  });
  for (const CodeTarget& target : targets) {
    std::string name =
        fmt::format("{}_{}", target.kind == CodeKind::cubin ? "sm" : "compute", target.arch);
    StepCode out{.kind = target.kind, .arch = target.arch};
    out.preimage = shipped_preimage(variant, name, options, first_text(variant.plan, target));
    if (auto code = find_shipped(name, out.preimage)) {
      out.code = std::move(*code);
      if (take(out)) return true;
    }
  }
  return false;
}

CodeTarget choose_target(int device_arch) {
  const NvrtcFacts& nvrtc = nvrtc_facts();
  CodeTarget target;
  for (int arch : nvrtc.archs) {
    // A cubin runs on later devices with the same major version.
    if (arch <= device_arch && arch / 10 == device_arch / 10) target.arch = arch;
  }
  std::string_view wanted = forced_kind();
  if (wanted == "ptx" || (target.arch == 0 && wanted.empty())) {
    target = {.kind = CodeKind::ptx};
    for (int arch : nvrtc.archs) {
      if (arch <= device_arch) target.arch = arch;
    }
  }
  if (target.arch == 0) target.arch = device_arch;  // NVRTC then reports that it does not know it
  return target;
}

StepCode compile_fresh(const Variant& variant, const CodeTarget& target) {
  StepCode out;
  out.kind = target.kind;
  out.arch = target.arch;
  CompiledCode code;
  const int spilled = encodes_two(variant.plan) ? kSpilledWhereEncoded : 0;
  for (const CudaOptions& rung : launch_ladder(variant.plan, target)) {
    code = compile_rung(variant, target, rung, &out);
    if (!spills(code, rung.min_blocks == 3 ? spilled : 0)) break;
  }
  out.code = std::move(code.code);
  out.kernels = std::move(code.kernels);
  return out;
}

StepCode compile_step(const Variant& variant, const CodeTarget& target, const std::string& key) {
  StepCode out;
  out.kind = target.kind;
  out.arch = target.arch;
  auto start = std::chrono::steady_clock::now();
  std::string text = first_text(variant.plan, target);
  out.emit_ms = milliseconds_since(start);
  std::string preimage = disk_preimage(key, text);
  if (auto stored = DiskCache::process().load(preimage)) {
    out.code = std::move(*stored);
    out.from_disk = true;
    out.preimage = std::move(preimage);
    return out;
  }
  double emit_ms = out.emit_ms;
  out = compile_fresh(variant, target);
  out.emit_ms += emit_ms;
  if (confirm_nvrtc_facts()) DiskCache::process().store(preimage, out.code);
  return out;
}

}  // namespace stepfuse::cuda
