// `stepfuse dump`: prints any stage from a step's text to its machine code. Knows the compiler and
// the runtime's two compilers.
#include <chrono>
#include <cstdio>
#include <memory>
#include <unistd.h>

#include <CLI/Option.hpp>
#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/c/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/schedule/schedule.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/step_code.hpp"
#include "tools/cli/cuda_code.hpp"
#include "tools/cli/source.hpp"
#include "tools/cli/terminal.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kDumpFooter = R"(Examples:
  stepfuse dump adamw --grad f16 --master --loss-scale --clip
  stepfuse dump adamw --clip --emit=passes                the program after each pass
  stepfuse dump adamw --clip --emit=schedule --form=unfused
  stepfuse dump my_step.sf --bind grad=bf16 --emit=cuda
  stepfuse dump adamw --clip --emit=cubin --arch=sm_100 -o adamw.cubin
  stepfuse dump adamw --clip --emit=cubin --cuda-options unroll=2,cache=streaming -o adamw.cubin
  stepfuse dump adamw --clip --emit=plan                  what the emitters read
  stepfuse dump adamw --clip --emit=llvm --cpu-level=x86-64-v3
  stepfuse dump adamw --clip --emit=c -o adamw.c
  stepfuse dump adamw --grad f16,bf16,f32 --emit=cuda --layout samples/layouts/mixed_dtypes.json

Kernels are made for the storage types of the layout, or without one for every combination that --bind
leaves open. ptx and cubin print registers and spills on standard error. No GPU is needed.)";

struct DumpArguments {
  SourceArguments source;
  std::string emit = "ir";
  KernelWords kernel;
  std::string output;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string passes_text(const Source& source, const SourceArguments& arguments) {
  PassTrace trace;
  trace.clock = seconds_now;
  optimize(source.program, signatures_of(source, arguments), &trace);
  return print(trace);
}

void print_resources(const cuda::StepCode& code) {
  for (const cuda::KernelResources& k : code.kernels) {
    std::string spills =
        k.spills() ? fmt::format("spills {} + {} bytes", k.spill_store_bytes, k.spill_load_bytes)
                   : "no spills";
    complain(fmt::format("{}: {} registers, {} bytes of shared memory, {}\n", k.kernel, k.registers,
                         k.shared_bytes, spills));
  }
  complain(fmt::format("sm_{}, {}, compiled in {:.0f} ms\n", code.arch, print(code.options),
                       code.compile_ms));
}

std::string cuda_stage(const Variant& variant, const DumpArguments& o) {
  cuda::CodeTarget target{.arch = parse_arch(o.kernel.arch), .options = o.kernel.cuda_options};
  if (o.emit == "cuda") return cuda::first_text(variant.plan, target);
  Progress progress;
  progress.show(-1, "compiling for " + o.kernel.arch);
  cuda::StepCode cubin = cuda::compile_fresh(variant, target);
  target.kind = cuda::CodeKind::ptx;
  // Only ptxas reports registers, so PTX is compiled a second time.
  std::string out = o.emit == "cubin" ? cubin.code : cuda::compile_fresh(variant, target).code;
  progress.clear();
  print_resources(cubin);
  return out;
}

std::string stage_text(const DumpArguments& o) {
  Source source = load_source(o.source);
  if (o.emit == "ir") return print(source.program);
  if (o.emit == "passes") return passes_text(source, o.source);
  std::vector<Signature> signatures = signatures_of(source, o.source);
  Program program = optimize(source.program, signatures);
  Form form = *form_from_name(o.kernel.form);
  if (o.emit == "schedule") {
    return print(make_schedule(program, {.form = form, .signatures = signatures}));
  }
  Variant variant = make_variant(program, signatures, form);
  if (o.emit == "plan") return print(variant.plan);
  if (o.emit == "c") return emit_c(variant.plan);
  if (o.emit == "llvm") return emit_llvm(variant.plan, cpu_target(o.kernel.cpu_level));
  return cuda_stage(variant, o);
}

int dump(const DumpArguments& o) {
  bool to_stdout = o.output.empty() || o.output == "-";
  if (o.emit == "cubin" && to_stdout && is_terminal(STDOUT_FILENO)) {
    throw Error(ErrorKind::usage,
                "a cubin is binary: name a file with -o, or send it to a pipe (… | cuobjdump -)");
  }
  std::string text = stage_text(o);
  if (!to_stdout) {
    write_file(o.output, text);
    return kOk;
  }
  std::fwrite(text.data(), 1, text.size(), stdout);
  return kOk;
}

}  // namespace

void add_dump(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand(
      "dump", "Print a stage of a step: IR, passes, schedule, plan, kernel text");
  verb->footer(std::string(kDumpFooter));
  auto o = std::make_shared<DumpArguments>();
  verb->add_option("--emit", o->emit, "Stage to print [ir]")
      ->type_name("ir|passes|schedule|plan|c|cuda|ptx|cubin|llvm")
      ->check(one_of({"ir", "passes", "schedule", "plan", "c", "cuda", "ptx", "cubin", "llvm"}));
  add_kernel_words(*verb, o->kernel);
  verb->add_option("-o,--output", o->output, "Write to a file instead of standard output")
      ->type_name("FILE");
  add_source(*verb, o->source, false);
  verb->add_option("--layout", o->source.layout_file,
                   "Take storage types from the tensors of a layout")
      ->type_name("FILE.json");
  verb->callback([&action, o] { action = [o] { return dump(*o); }; });
}

}  // namespace stepfuse::cli
