// `stepfuse explain` as tables for people. Knows the explanation only.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tools/cli/explanation.hpp"
#include "tools/cli/table.hpp"

namespace stepfuse::cli {
namespace {

using Row = std::vector<std::string>;

class Writer {
 public:
  explicit Writer(const Explanation& e) : e_(e) {}

  std::string run() {
    bool single = e_.tensors == 1;
    out_ += fmt::format("{}\n{} parameters in {} tensor{} (layout {})\n\n", e_.title,
                        with_commas(e_.parameters), with_commas(e_.tensors), single ? "" : "s",
                        e_.layout);
    overview();
    traffic();
    resources();
    compile_times();
    time_floor();
    return std::move(out_);
  }

 private:
  // Makes one cell per form.
  template <class F>
  Row forms(std::string label, F&& cell) {
    Row row = {std::move(label)};
    for (const FormExplanation& f : e_.forms) row.push_back(cell(f));
    return row;
  }
  std::string against_unfused(double bytes) const {
    if (bytes == 0) return "-";
    return fmt::format("{:.2f}x", e_.unfused().bytes_per_parameter / bytes);
  }

  void overview() {
    Table t;
    t.row(forms("", [](auto& f) { return std::string(name(f.form)); }));
    t.row(forms("launches", [](auto& f) { return fmt::format("{}", f.launches); }));
    t.row(forms("grid barriers", [](auto& f) { return fmt::format("{}", f.grid_barriers); }));
    t.row(forms("phases", [](auto& f) { return fmt::format("{}", f.variant.plan.phases.size()); }));
    t.row(
        forms("bytes per parameter", [](auto& f) { return short_number(f.bytes_per_parameter); }));
    t.row(forms("  of a skipped step",
                [](auto& f) { return short_number(f.skipped_bytes_per_parameter); }));
    t.row(forms("speed at equal bandwidth",
                [&](auto& f) { return against_unfused(f.bytes_per_parameter); }));
    auto bytes = [](size_t n) { return human_bytes(static_cast<double>(n)); };
    t.row(forms("device bytes owned by the step, CPU",
                [&](auto& f) { return bytes(f.workspace_bytes); }));
    t.row(forms("  and on a GPU", [&](auto& f) { return bytes(f.cuda_workspace_bytes); }));
    out_ += t.text();
  }

  std::string signature_words(size_t s) const {
    const Variant& variant = e_.forms[0].variant;
    std::string words;
    for (size_t b = 0; b < variant.program.buffers.size(); ++b) {
      if (variant.signatures[s][b] == DType::absent) continue;
      words +=
          fmt::format(" {}={}", variant.program.buffers[b].name, name(variant.signatures[s][b]));
    }
    return words;
  }

  void traffic() {
    if (e_.forms[0].variant.program.buffers.empty()) return;
    for (size_t s = 0; s < e_.elements.size(); ++s) {
      out_ += "\nBytes per parameter, read+written, by phase and array\n";
      if (e_.elements.size() > 1) {
        out_ +=
            fmt::format("{} parameters with{}\n", with_commas(e_.elements[s]), signature_words(s));
      }
      Table t;
      // The split form has the same phases as the fused form.
      add_traffic(t, e_.forms.front(), s);
      t.row({});
      add_traffic(t, e_.forms.back(), s);
      out_ += t.text();
    }
  }

  void add_traffic(Table& t, const FormExplanation& f, size_t s) {
    const Variant& variant = f.variant;
    Row head = {fmt::format("{}", name(f.form)), "total"};
    for (const Buffer& b : variant.program.buffers) head.push_back("@" + b.name);
    for (size_t i = 0; i < variant.plan.scratch_count(); ++i)
      head.push_back(fmt::format("scratch {}", i));
    t.row(head);
    auto line = [&](const std::string& label, const std::vector<ArrayTraffic>& arrays) {
      Row row(head.size(), "");
      row[0] = label;
      double total = 0;
      for (const ArrayTraffic& a : arrays) {
        size_t column =
            2 + (a.buffer >= 0 ? static_cast<size_t>(a.buffer)
                               : variant.program.buffers.size() + static_cast<size_t>(a.scratch));
        row[column] = fmt::format("{}+{}", short_number(a.read), short_number(a.written));
        total += a.total();
      }
      row[1] = short_number(total);
      t.row(row);
    };
    for (size_t p = 0; p < variant.plan.phases.size(); ++p) {
      line("  " + variant.plan.phases[p].name, f.traffic[s].phases[p].arrays);
    }
    line("  all", f.traffic[s].by_array());
    if (&f == &e_.forms.front()) line("  floor: each array once", f.traffic[s].floor());
  }

  // Prints each problem once, even if several rows have it.
  void problems(const std::vector<std::string>& all) {
    std::vector<std::string> shown;
    for (const std::string& p : all) {
      if (p.empty() || std::find(shown.begin(), shown.end(), p) != shown.end()) continue;
      shown.push_back(p);
      out_ += fmt::format("  {}\n", p);
    }
  }

  void resources() {
    const std::vector<CudaCompile>& archs = e_.forms[0].cuda;
    if (archs.empty()) return;
    out_ += "\nRegisters per thread, spilled bytes (of the largest kernel; all kernels)\n";
    Table t;
    Row head = {""};
    for (const CudaCompile& c : archs) head.push_back(fmt::format("sm_{}", c.arch));
    t.row(head);
    std::vector<std::string> why;
    for (const FormExplanation& f : e_.forms) {
      Row row = {std::string(name(f.form))};
      for (const CudaCompile& c : f.cuda) {
        row.push_back(
            c.problem.empty() ? fmt::format("{}, {}", c.max_registers(), c.spilled_bytes()) : "-");
        why.push_back(c.problem);
      }
      t.row(row);
    }
    out_ += t.text();
    problems(why);
  }

  void compile_times() {
    if (e_.forms[0].cuda.empty() && e_.forms[0].cpu.total_ms() == 0 &&
        e_.forms[0].cpu.problem.empty()) {
      return;
    }
    out_ += "\nCompile time on this machine, ms\n";
    Table t;
    t.row({"", "passes", "emission", "parse", "optimize", "codegen", "load", "total"});
    auto ms = [](double v) { return fmt::format("{:.1f}", v); };
    std::vector<std::string> why;
    for (const FormExplanation& f : e_.forms) {
      const CpuCompile& c = f.cpu;
      why.push_back(c.problem);
      if (!c.problem.empty()) continue;
      t.row({fmt::format("{}, CPU", name(f.form)), ms(f.passes_ms), ms(c.emit_ms), ms(c.parse_ms),
             ms(c.optimize_ms), ms(c.codegen_ms), ms(c.load_ms), ms(f.passes_ms + c.total_ms())});
    }
    for (const FormExplanation& f : e_.forms) {
      for (const CudaCompile& c : f.cuda) {
        if (!c.problem.empty()) continue;
        // NVRTC parses, optimises and generates code in one call.
        t.row({fmt::format("{}, sm_{}", name(f.form), c.arch), ms(f.passes_ms), ms(c.emit_ms), "",
               "", ms(c.nvrtc_ms), "", ms(f.passes_ms + c.emit_ms + c.nvrtc_ms)});
      }
    }
    out_ += t.text();
    problems(why);
  }

  void time_floor() {
    out_ += "\nShortest possible time of a step, ms: bytes at the datasheet's bandwidth\n";
    Table t;
    Row head = {"", "GB/s"};
    for (const FormExplanation& f : e_.forms) head.emplace_back(name(f.form));
    head.emplace_back("source");
    t.left(head.size() - 1).row(head);
    for (const sass::Gpu& gpu : sass::gpus()) {
      Row row = {std::string(gpu.product), short_number(gpu.datasheet_gb_s)};
      for (const FormExplanation& f : e_.forms) {
        double bytes = f.bytes_per_parameter * static_cast<double>(e_.parameters);
        row.push_back(fmt::format("{:.3f}", bytes / gpu.datasheet_gb_s * 1e-6));
      }
      row.emplace_back(gpu.datasheet);
      t.row(row);
    }
    out_ += t.text();
  }

  const Explanation& e_;
  std::string out_;
};

}  // namespace

std::string explanation_text(const Explanation& e) { return Writer(e).run(); }

}  // namespace stepfuse::cli
