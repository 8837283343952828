// Compiles every variant that the backends will ask for, for every target. Knows the step's plan, both
// compilers and the folder of kernels.
#include "runtime/step/ahead.hpp"

#include <optional>

#include <fmt/format.h>

#include "ir/text/words.hpp"
#include "runtime/caches/kernel_folder.hpp"
#include "runtime/cpu/compile_or_keep.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/step_code.hpp"
#include "runtime/step/init_program.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {
namespace {

std::optional<cuda::CodeTarget> cuda_target(std::string_view name, const std::string& options) {
  cuda::CodeTarget target;
  target.options = options;
  if (name.starts_with("sm")) {
    target.kind = cuda::CodeKind::cubin;
  } else if (name.starts_with("compute")) {
    target.kind = cuda::CodeKind::ptx;
  } else {
    return std::nullopt;
  }
  std::string_view digits = name.substr(name.find('_') + 1);
  target.arch = parse_number<int>(digits).value_or(0);
  if (target.arch < 75) {
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a target; write sm_90 for a cubin, "
                                              "compute_90 for PTX, or a processor level",
                                              name.substr(0, 40)));
  }
  return target;
}

// Throws if kernels for the target cannot be compiled here.
void check_target(const std::string& name, const std::string& options) {
  if (auto cuda = cuda_target(name, options)) return cuda::require_arch(cuda->arch);
  if (name == "host") {
    throw Error(ErrorKind::usage,
                "'host' means this machine only; name a processor level, as in x86-64-v3");
  }
  cpu_target(name);
  host_cpu_target();  // throws without LLVM
}

void ship_for_cuda(const Variant& variant, const std::string& name, const cuda::CodeTarget& target,
                   const std::string& folder, AheadKernel* out) {
  std::string text = cuda::first_text(variant.plan, target);
  std::string code = cuda::compile_fresh(variant, target).code;
  out->bytes = code.size();
  ship(folder, name, shipped_preimage(variant, name, target.options, text), code);
}

void ship_for_cpu(const Variant& variant, const std::string& level, const std::string& folder,
                  AheadKernel* out) {
  CpuTarget target = cpu_target(level);
  std::string text = emit_llvm(variant.plan, target);
  std::string object = compile_or_keep(variant, text, target, level).bytes;
  out->bytes = object.size();
  ship(folder, level, shipped_preimage(variant, level, "", text), object);
}

}  // namespace

std::vector<AheadKernel> compile_ahead(const AheadRequest& request, const std::string& folder) {
  for (const std::string& target : request.targets) check_target(target, request.cuda_options);
  std::vector<AheadKernel> out;
  auto add = [&](const Program& program, const Layout& layout, Form form, const std::string& target,
                 bool observed = false) {
    StepPlan plan(program, layout, form, observed);
    AheadKernel kernel{
        .target = target, .step = program.name, .form = std::string(name(plan.kernels().form))};
    if (auto cuda = cuda_target(target, request.cuda_options)) {
      ship_for_cuda(plan.variant, target, *cuda, folder, &kernel);
    } else {
      ship_for_cpu(plan.variant, target, folder, &kernel);
    }
    out.push_back(std::move(kernel));
  };
  std::optional<Program> init = make_init_program(request.program);
  for (const std::string& target : request.targets) {
    add(request.program, request.layout, request.form, target, request.observe);
    bool on_cuda = cuda_target(target, "").has_value();
    if (on_cuda && request.observe && out.back().form == name(Form::fused)) {
      add(request.program, request.layout, Form::split, target);
    }
    if (init) add(*init, init_layout(*init, request.layout, 0), Form::fused, target);
  }
  return out;
}

}  // namespace stepfuse
