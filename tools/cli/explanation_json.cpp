// `stepfuse explain --json`. Knows the explanation and nlohmann-json.
#include <fmt/format.h>

#include "tools/cli/explanation.hpp"
#include "tools/cli/json.hpp"

namespace stepfuse::cli {
namespace {

Json arrays_json(const Program& program, const std::vector<ArrayTraffic>& arrays) {
  Json out = Json::array();
  for (const ArrayTraffic& a : arrays) {
    std::string label = a.buffer >= 0 ? program.buffers[static_cast<size_t>(a.buffer)].name
                                      : fmt::format("scratch {}", a.scratch);
    out.push_back({{"array", label}, {"read", a.read}, {"written", a.written}});
  }
  return out;
}

Json traffic_json(const FormExplanation& f, const std::vector<uint64_t>& elements) {
  Json out = Json::array();
  for (size_t s = 0; s < f.traffic.size(); ++s) {
    Json types;
    for (size_t b = 0; b < f.variant.program.buffers.size(); ++b) {
      types[f.variant.program.buffers[b].name] = name(f.variant.signatures[s][b]);
    }
    Json phases = Json::array();
    for (size_t p = 0; p < f.variant.plan.phases.size(); ++p) {
      const PhaseTraffic& t = f.traffic[s].phases[p];
      phases.push_back({{"name", f.variant.plan.phases[p].name},
                        {"bytes", t.bytes()},
                        {"skipped_bytes", t.skipped_bytes()},
                        {"arrays", arrays_json(f.variant.program, t.arrays)}});
    }
    out.push_back({{"dtypes", types}, {"parameters", elements[s]}, {"phases", phases}});
  }
  return out;
}

Json cpu_json(const CpuCompile& c) {
  if (!c.problem.empty()) return {{"problem", c.problem}};
  return {{"emit_ms", c.emit_ms},       {"parse_ms", c.parse_ms}, {"optimize_ms", c.optimize_ms},
          {"codegen_ms", c.codegen_ms}, {"load_ms", c.load_ms},   {"total_ms", c.total_ms()}};
}

Json cuda_json(const CudaCompile& c) {
  Json j = {{"arch", fmt::format("sm_{}", c.arch)}};
  if (!c.problem.empty()) {
    j["problem"] = c.problem;
    return j;
  }
  j["emit_ms"] = c.emit_ms;
  j["nvrtc_ms"] = c.nvrtc_ms;
  Json kernels = Json::array();
  for (const cuda::KernelResources& k : c.kernels) {
    kernels.push_back({{"name", k.kernel},
                       {"registers", k.registers},
                       {"shared_bytes", k.shared_bytes},
                       {"stack_bytes", k.stack_bytes},
                       {"spill_store_bytes", k.spill_store_bytes},
                       {"spill_load_bytes", k.spill_load_bytes}});
  }
  j["kernels"] = kernels;
  return j;
}

// The input of tools/fit_model.py: the model's loops (tools/sass/model.cpp) and the GPU constants
// that it assumes.
Json sass_json(const sass::Report& r) {
  Json loops = Json::array(), assumed = Json::array();
  for (const sass::PhaseLoop& l : r.loops) {
    const sass::Budget& b = l.budget;
    loops.push_back({{"kernel", l.kernel},
                     {"phase", l.phase},
                     {"signature", l.signature},
                     {"elements", b.elements},
                     {"instructions", b.instructions},
                     {"special", b.special},
                     {"doubles", b.doubles},
                     {"loaded", b.loaded},
                     {"stored", b.stored},
                     {"loads", b.loads},
                     {"loads_at_once", b.loads_at_once},
                     {"exposed_cycles", b.exposed_cycles},
                     {"splits", l.splits},
                     {"blocks", l.occupancy.blocks},
                     {"warps", l.occupancy.warps},
                     {"findings", l.findings}});
  }
  for (const sass::Gpu& gpu : sass::gpus()) {
    if (gpu.arch != r.arch) continue;
    assumed.push_back({{"gpu", gpu.name},
                       {"multiprocessors", gpu.multiprocessors},
                       {"clock_ghz", gpu.clock_ghz},
                       {"copy_tb_s", gpu.copy_tb_s},
                       {"latency_ns", gpu.latency_ns},
                       {"doubles_per_clock", gpu.doubles_per_clock}});
  }
  return {{"arch", r.arch}, {"disassembler", r.disassembler}, {"loops", loops}, {"gpus", assumed}};
}

}  // namespace

std::string explanation_json(const Explanation& e, const std::vector<sass::Report>& machine_code) {
  Json forms;
  for (const FormExplanation& f : e.forms) {
    Json cuda = Json::array();
    for (const CudaCompile& c : f.cuda) cuda.push_back(cuda_json(c));
    forms[std::string(name(f.form))] = {
        {"launches", f.launches},
        {"grid_barriers", f.grid_barriers},
        {"phases", f.variant.plan.phases.size()},
        {"bytes_per_parameter", f.bytes_per_parameter},
        {"skipped_bytes_per_parameter", f.skipped_bytes_per_parameter},
        {"workspace_bytes", f.workspace_bytes},
        {"cuda_workspace_bytes", f.cuda_workspace_bytes},
        {"passes_ms", f.passes_ms},
        {"traffic", traffic_json(f, e.elements)},
        {"cpu", cpu_json(f.cpu)},
        {"cuda", cuda}};
  }
  Json floors = Json::array();
  for (const sass::Gpu& gpu : sass::gpus()) {
    Json ms;
    for (const FormExplanation& f : e.forms) {
      ms[std::string(name(f.form))] =
          f.bytes_per_parameter * static_cast<double>(e.parameters) / gpu.datasheet_gb_s * 1e-6;
    }
    floors.push_back({{"gpu", gpu.product},
                      {"gigabytes_per_second", gpu.datasheet_gb_s},
                      {"source", gpu.datasheet},
                      {"ms", ms}});
  }
  Json j = {{"step", e.title},      {"layout", e.layout},
            {"tensors", e.tensors}, {"parameters", e.parameters},
            {"forms", forms},       {"time_floor", floors}};
  for (const sass::Report& r : machine_code) j["sass"].push_back(sass_json(r));
  return json_text(j);
}

}  // namespace stepfuse::cli
