// Collects the stages; each function makes one kind.
#include "tools/explore/stages.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include <stepfuse/error.hpp>
#include <stepfuse/parser.hpp>
#include <stepfuse/printer.hpp>

#include "compiler/c/emit.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/llvm/emit.hpp"
#include "compiler/passes/pass_manager.hpp"
#include "compiler/schedule/schedule.hpp"
#include "runtime/cpu/llvm_compiler.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "runtime/cuda/step_code.hpp"
#include "tools/explore/line_info.hpp"
#include "tools/sass/disassembler.hpp"
#include "tools/sass/sass.hpp"

namespace stepfuse::explore {
namespace {

// Maps an instruction's text after the passes to its lines of the IR.
class Origins {
 public:
  explicit Origins(const Program& optimized) {
    for (size_t i = 0; i < optimized.insts.size(); ++i) {
      if (optimized.locs[i].line <= 0) continue;
      std::string text = print_inst(optimized, static_cast<ValueId>(i));
      lines_[text].push_back(optimized.locs[i].line);
      // The schedule writes a condition once, above all the stores that it guards.
      size_t guard = text.rfind(" if %");
      if (guard != text.npos) lines_[text.substr(0, guard)].push_back(optimized.locs[i].line);
    }
    for (auto& [text, lines] : lines_) normalize(&lines);
  }

  std::vector<int> of(std::string_view inst) const {
    size_t begin = inst.find_first_not_of(" \t");
    if (begin == inst.npos) return {};
    auto it = lines_.find(inst.substr(begin));
    return it == lines_.end() ? std::vector<int>() : it->second;
  }

  static void normalize(std::vector<int>* lines) {
    std::sort(lines->begin(), lines->end());
    lines->erase(std::unique(lines->begin(), lines->end()), lines->end());
  }

 private:
  std::map<std::string, std::vector<int>, std::less<>> lines_;
};

// Lines that are themselves instructions.
std::vector<Line> instructions(std::string_view text, const Origins& origins) {
  std::vector<Line> out;
  for (std::string& line : split_lines(text)) {
    std::vector<int> of = origins.of(line);
    out.push_back({std::move(line), std::move(of)});
  }
  return out;
}

// Lines whose instruction follows in a comment, which `mark` starts.
std::vector<Line> commented(std::string_view text, std::string_view mark, const Origins& origins,
                            bool drop_comment) {
  std::vector<Line> out;
  for (std::string& line : split_lines(text)) {
    size_t at = line.find(mark);
    std::vector<int> of;
    if (at != line.npos) of = origins.of(std::string_view(line).substr(at + mark.size()));
    if (drop_comment && at != line.npos) line.resize(at);
    out.push_back({std::move(line), std::move(of)});
  }
  return out;
}

// Code below a comment that has its instruction.
std::vector<Line> under_comments(std::string_view text, const Origins& origins) {
  constexpr std::string_view kMark = "  ;";
  std::vector<Line> out;
  std::vector<int> now;
  for (std::string& line : split_lines(text)) {
    if (line.starts_with(kMark)) {
      now = origins.of(std::string_view(line).substr(kMark.size()));
      if (line == kMark) continue;
    } else if (line.empty() || line[0] == '}') {
      now.clear();
    }
    bool is_label = !line.empty() && line[0] != ' ';
    out.push_back({std::move(line), is_label ? std::vector<int>() : now});
  }
  return out;
}

// Lines of machine code, which belong to the lines of the CUDA text that they were made from.
std::vector<Line> through_cuda(const std::vector<CodeLine>& code, const std::vector<Line>& cuda) {
  std::vector<Line> out;
  for (const CodeLine& line : code) {
    std::vector<int> of;
    for (int source : line.sources) {
      auto at = static_cast<size_t>(source - 1);
      if (at >= cuda.size()) continue;
      of.insert(of.end(), cuda[at].origins.begin(), cuda[at].origins.end());
    }
    Origins::normalize(&of);
    out.push_back({line.text, std::move(of)});
  }
  return out;
}

Stage ptx_stage(const Stage& cuda, const std::string& text, int arch) {
  Stage s{"PTX", fmt::format("NVRTC's, for compute_{}", arch), {}};
  cuda::CompiledCode code = cuda::nvrtc_compile(
      {.text = text, .arch = arch, .kind = cuda::CodeKind::ptx, .line_info = true});
  s.lines = through_cuda(read_ptx(code.code), cuda.lines);
  return s;
}

// Issue cycles by function and address: the stalls in the control words, without any wait.
std::map<std::string, std::map<uint64_t, int>> issue_cycles(const std::string& program,
                                                            const cuda::StepCode& code) {
  std::map<std::string, std::map<uint64_t, int>> out;
  for (const sass::Function& f : sass::parse(sass::disassemble(program, code.code))) {
    for (const sass::Instruction& i : f.code) out[f.name][i.address] = i.control.stall;
  }
  return out;
}

Stage sass_stage(const Stage& cuda, const cuda::StepCode& code) {
  Stage s{"SASS", "", {}};
  std::string program = sass::find_disassembler();
  if (program.empty()) {
    s.note =
        "not here: nvdisasm is neither in the PATH nor named in STEPFUSE_NVDISASM nor in the build "
        "folder";
    return s;
  }
  s.note = fmt::format("what sm_{} executes, by nvdisasm {}", code.arch,
                       sass::disassembler_version(program));
  s.lines =
      through_cuda(read_sass(sass::disassemble(program, code.code, {"-c", "-gi"})), cuda.lines);
  const auto cycles = issue_cycles(program, code);
  std::string function;
  for (Line& line : s.lines) {
    if (std::string name = function_name(line.text); !name.empty()) function = name;
    std::optional<uint64_t> address = address_of(line.text);
    auto known = cycles.find(function);
    if (!address || known == cycles.end()) continue;
    if (auto at = known->second.find(*address); at != known->second.end()) line.cycles = at->second;
  }
  return s;
}

void add_gpu_stages(Stages* out, const Request& r, const Origins& origins) {
  const Variant& variant = out->variant;
  std::vector<Stage>* all = &out->all;
  cuda::CodeTarget target{.arch = r.arch, .options = r.cuda_options, .line_info = true};
  std::string text = cuda::first_text(variant.plan, target);
  Stage cuda{"CUDA", "one kernel, prelude included", {}};
  const bool compiles = cuda::nvrtc_status().available;
  cuda::StepCode code;
  if (compiles) {
    code = cuda::compile_fresh(variant, target);
    text = emit_cuda(variant.plan, code.options);
    cuda.note = print(code.options);
    out->kernels = code.kernels;
  }
  cuda.lines = commented(text, "  // ", origins, false);
  if (!compiles) {
    std::string why = "not here: NVRTC was not found; set STEPFUSE_NVRTC_DIR to its folder";
    all->insert(all->end(), {std::move(cuda), {"PTX", why, {}}, {"SASS", why, {}}});
    return;
  }
  Stage ptx = ptx_stage(cuda, text, r.arch);
  Stage sass = sass_stage(cuda, code);
  all->insert(all->end(), {std::move(cuda), std::move(ptx), std::move(sass)});
}

}  // namespace

Stages make_stages(const Request& r, const std::function<void(std::string_view)>& tell) {
  Stages out;
  std::string ir = print(r.program);
  Program parsed = parse(ir);  // its instructions know their lines
  Stage first{"IR", "the step as it is written", {}};
  for (std::string& line : split_lines(ir)) first.lines.push_back({std::move(line), {}});
  for (const SourceLoc& loc : parsed.locs) {
    if (loc.line > 0) first.lines[static_cast<size_t>(loc.line - 1)].origins = {loc.line};
  }
  Program optimized = optimize(parsed, r.signatures);
  Origins origins(optimized);
  ScheduleOptions scheduled{.form = r.form, .signatures = r.signatures};
  out.variant = make_variant(optimized, r.signatures, r.form);
  const KernelPlan& plan = out.variant.plan;
  out.all.push_back(std::move(first));
  out.all.push_back({"passes", "after them", instructions(print(optimized), origins)});
  out.all.push_back({"schedule", "cut into kernels and phases",
                     instructions(print(make_schedule(optimized, scheduled)), origins)});
  out.all.push_back({"plan", "what all emitters read",
                     commented(plan::print(plan, plan::Comments::step), "  ; ", origins, true)});
  tell(fmt::format("compiling for sm_{}", r.arch));
  add_gpu_stages(&out, r, origins);
  out.all.push_back({"LLVM IR", fmt::format("for the CPU, {}", r.cpu_level),
                     under_comments(emit_llvm(plan, cpu_target(r.cpu_level)), origins)});
  out.all.push_back(
      {"C", "for machines without LLVM", commented(emit_c(plan), "  // ", origins, false)});
  return out;
}

}  // namespace stepfuse::explore
