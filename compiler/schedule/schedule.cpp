// Builds the fused and split forms, and checks the input of scheduling. Knows ir.
#include "compiler/schedule/schedule.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "compiler/names.hpp"
#include "compiler/schedule/analysis.hpp"
#include "compiler/schedule/early_stores.hpp"
#include "compiler/schedule/stages.hpp"

namespace stepfuse {
namespace {

void check_signature(const Program& p, const Signature& s) {
  if (s.size() != p.buffers.size()) {
    throw Error(
        ErrorKind::compile,
        fmt::format("a signature of step @{} names {} storage types; the step has {} buffers",
                    p.name, s.size(), p.buffers.size()));
  }
  for (size_t b = 0; b < s.size(); ++b) {
    if (!can_be(p.buffers[b], s[b])) {
      throw Error(ErrorKind::compile, fmt::format("buffer @{} of step @{} cannot be stored as {}",
                                                  p.buffers[b].name, p.name, name(s[b])));
    }
  }
}

// Makes one phase per level of reductions. The last phase has every store.
std::vector<PhaseRoots> make_roots(const Program& p) {
  std::vector<int> level = reduction_levels(p);
  std::vector<int> phase_of = reduction_phases(p);
  std::vector<PhaseRoots> roots(1);
  auto at = [&](int l) -> PhaseRoots& {
    if (roots.size() <= static_cast<size_t>(l)) roots.resize(static_cast<size_t>(l) + 1);
    return roots[static_cast<size_t>(l)];
  };
  std::vector<ValueId> stores;
  for (ValueId v = 0; v < p.size(); ++v) {
    int l = level[static_cast<size_t>(v)];
    if (is_folded(p[v])) {
      bool elements = is_element_reduction(p, v);
      at(l - 1);
      PhaseRoots& phase = at(elements ? phase_of[static_cast<size_t>(v)] : l - 1);
      (elements ? phase.reductions : phase.rollups).push_back(v);
    }
    if (p[v].op == Op::store) {
      at(l);
      stores.push_back(v);
    }
  }
  roots.back().stores = stores;
  return roots;
}

std::vector<Phase> make_phases(const Program& p, const std::vector<PhaseRoots>& roots) {
  // Kernels are named after their phases.
  bool updates = !roots.back().stores.empty();
  size_t reduces = roots.size() - (updates ? 1 : 0);
  std::vector<Phase> phases;
  for (const PhaseRoots& r : roots) {
    std::string name = phases.size() < reduces ? "reduce" : "update";
    if (reduces > 1 && phases.size() < reduces) name += std::to_string(phases.size());
    phases.push_back(make_phase(p, std::move(name), r));
  }
  return phases;
}

}  // namespace

Schedule make_schedule(const Program& program, const ScheduleOptions& options) {
  if (options.signatures.empty()) {
    throw Error(ErrorKind::compile, "a schedule needs the storage types of at least one tensor");
  }
  for (const Signature& s : options.signatures) check_signature(program, s);

  Schedule schedule;
  schedule.form = options.form;
  schedule.program = program;
  schedule.signatures = options.signatures;
  for (ValueId v = 0; v < program.size(); ++v) {
    if (is_folded(program[v])) schedule.reductions.push_back(v);
  }
  schedule.finish = make_finish(program);
  if (options.form == Form::unfused) {
    add_stages(schedule);
  } else {
    std::vector<PhaseRoots> roots = make_roots(program);
    // Only the fused form may store early. Between the kernels of `split` a caller may replace the results
    // of the first ones, or run them again.
    if (options.form == Form::fused) store_early(program, options.signatures, roots);
    schedule.phases = make_phases(program, roots);
    auto count = static_cast<int32_t>(schedule.phases.size());
    if (options.form == Form::fused) {
      schedule.kernels.push_back({program.name, 0, count});
    } else {
      for (int32_t i = 0; i < count; ++i) {
        std::string phase = schedule.phases[static_cast<size_t>(i)].name;
        schedule.kernels.push_back({fmt::format("{}_{}", program.name, phase), i, 1});
      }
    }
  }
  UniqueNames names;
  for (Kernel& k : schedule.kernels) k.name = names.unique(identifier(k.name));
  verify_schedule(schedule);
  return schedule;
}

}  // namespace stepfuse
