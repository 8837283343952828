// Matches loops with phases by the bytes that they move.
#include "tools/sass/report.hpp"

#include <algorithm>

#include "compiler/abi.hpp"
#include "compiler/cuda/emit.hpp"
#include "compiler/plan/traffic.hpp"
#include "runtime/cuda/step_code.hpp"
#include "tools/sass/disassembler.hpp"

namespace stepfuse::sass {
namespace {

struct Candidate {
  int phase, signature;
  Moved moved;
};

// The phases and signatures that a kernel's loops may belong to, in code order.
std::vector<Candidate> candidates_of(const Variant& variant, const plan::Kernel& kernel) {
  std::vector<Traffic> traffic;
  for (size_t k = 0; k < variant.signatures.size(); ++k) {
    traffic.push_back(traffic_of(variant.plan, k));
  }
  std::vector<Candidate> out;
  for (int p = kernel.first_phase; p < kernel.end(); ++p) {
    for (size_t k = 0; k < traffic.size(); ++k) {
      Candidate place{p, static_cast<int>(k)};
      for (const ArrayTraffic& a : traffic[k].phases[static_cast<size_t>(p)].arrays) {
        const auto buffer = static_cast<size_t>(a.buffer);
        const int block = a.buffer < 0 ? 1
                                       : variant.plan.arrays[buffer].at.rows *
                                             variant.plan.arrays[buffer].at.columns;
        (block > 1 ? place.moved.shared : place.moved.read) += static_cast<int>(a.read * block);
        if (block == 1) place.moved.written += static_cast<int>(a.written);
      }
      out.push_back(place);
    }
  }
  return out;
}

// Finds the next candidate whose bytes the loop moves. Loops are in phase order, but a phase may
// have a second loop for skipped steps.
PhaseLoop match(const Loop& loop, const std::vector<Candidate>& candidates, size_t* next) {
  PhaseLoop found;
  for (size_t k = *next; k < candidates.size(); ++k) {
    found.budget = budget_of(loop, candidates[k].moved);
    if (found.budget.elements == 0) continue;
    found.phase = candidates[k].phase;
    found.signature = candidates[k].signature;
    *next = k + 1;
    break;
  }
  if (found.phase >= 0) found.findings = findings(loop, found.budget);
  return found;
}

}  // namespace

Report report_of(const Variant& variant, int arch) {
  std::string program = require_disassembler();
  Report report;
  report.arch = arch;
  report.disassembler = "nvdisasm " + disassembler_version(program);
  cuda::StepCode code = cuda::compile_fresh(variant, {.arch = arch});
  std::vector<Function> functions = parse(disassemble(program, code.code));
  for (const plan::Kernel& kernel : variant.plan.kernels) {
    const std::string name = cuda_entry_name(kernel.name);
    auto named = [&](const auto& f) { return f.name == name; };
    auto function = std::find_if(functions.begin(), functions.end(), named);
    auto resources = std::find_if(code.kernels.begin(), code.kernels.end(),
                                  [&](const auto& k) { return k.kernel == name; });
    if (function == functions.end() || resources == code.kernels.end()) continue;
    std::vector<Candidate> all = candidates_of(variant, kernel);
    size_t next = 0;
    for (const Loop& loop : streaming_loops(*function)) {
      PhaseLoop found = match(loop, all, &next);
      if (found.phase < 0) continue;
      found.kernel = kernel.name;
      found.splits = variant.plan.may_split(variant.plan.phase(found.phase));
      found.occupancy = occupancy(resources->registers, resources->shared_bytes,
                                  static_cast<int>(abi::kBlockThreads), arch);
      report.loops.push_back(std::move(found));
    }
  }
  return report;
}

}  // namespace stepfuse::sass
