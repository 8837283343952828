// Runs the passes in their fixed order. Knows ir and signatures.
#include "compiler/passes/pass_manager.hpp"

#include <fmt/format.h>

#include <stepfuse/printer.hpp>

#include "compiler/passes/passes.hpp"
#include "ir/program/verifier.hpp"

namespace stepfuse {
namespace {

using Signatures = std::span<const Signature>;

// Passes make each other's work smaller, never larger. A second round is therefore nearly always the last;
// the limit only keeps a bug from hanging.
constexpr int kMaxRounds = 16;

Program run_verified(const Pass& pass, const Program& program, Signatures signatures) {
  Program result = pass.run(program, signatures);
  std::vector<Diagnostic> faults = find_violations(result);
  if (!faults.empty()) {
    internal_error(
        fmt::format("pass '{}' broke rule V{}: {}", pass.name, faults[0].rule, faults[0].message));
  }
  return result;
}

}  // namespace

std::span<const Pass> optimization_passes() {
  static constexpr Pass kPasses[] = {
      {"bind dtypes", bind_dtypes},
      // Concrete types turn casts into identities, so this comes first.
      {"collapse casts", [](const Program& p, Signatures) { return collapse_casts(p); }},
      {"fold constants", [](const Program& p, Signatures) { return fold_constants(p); }},
      {"simplify", [](const Program& p, Signatures) { return simplify(p); }},
      {"merge duplicates", [](const Program& p, Signatures) { return merge_duplicates(p); }},
      // This comes last, because the other passes only stop using values.
      {"remove dead", [](const Program& p, Signatures) { return remove_dead(p); }},
  };
  return kPasses;
}

Program optimize(const Program& program, Signatures signatures, PassTrace* trace) {
  auto now = [&] { return trace != nullptr && trace->clock ? trace->clock() : 0.0; };
  if (trace != nullptr) trace->input = program;
  Program current = program;
  bool changed = true;
  for (int round = 1; changed; ++round) {
    check_internal(round <= kMaxRounds, "the passes undo each other's work");
    changed = false;
    for (const Pass& pass : optimization_passes()) {
      double begin = now();
      Program next = run_verified(pass, current, signatures);
      double seconds = now() - begin;
      bool differs = !(next == current);
      if (trace != nullptr) {
        trace->records.push_back({pass.name, round, differs, current.size(), next.size(), seconds,
                                  differs ? next : Program{}});
      }
      changed |= differs;
      current = std::move(next);
    }
  }
  return current;
}

std::string print(const PassTrace& trace) {
  std::string out = "; before\n" + print(trace.input);
  for (const PassRecord& r : trace.records) {
    // Later rounds change little, and the last one nothing.
    if (r.round > 1 && !r.changed) continue;
    std::string round = r.round > 1 ? fmt::format(", round {}", r.round) : "";
    if (r.changed) {
      out += fmt::format("; after {}{} ({} -> {} instructions)\n{}", r.name, round, r.before,
                         r.after, print(r.result));
    } else {
      out += fmt::format("; after {}{}: unchanged\n", r.name, round);
    }
  }
  return out;
}

}  // namespace stepfuse
