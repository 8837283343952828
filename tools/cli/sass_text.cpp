// Tables of the counts that were made in machine code.
#include "tools/cli/sass_text.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/cli/table.hpp"

namespace stepfuse::cli {
namespace {

std::string title(const Variant& variant, const sass::PhaseLoop& l) {
  std::string phase = variant.plan.phases[static_cast<size_t>(l.phase)].name;
  if (variant.signatures.size() == 1) return phase;
  return fmt::format("{}, {}", phase, variant.plan.signatures[static_cast<size_t>(l.signature)]);
}

void counts(std::string* out, const Variant& variant, const sass::Report& r) {
  *out += fmt::format(
      "\nMachine code of the streaming loops, sm_{} ({}), per element of the fast path\n", r.arch,
      r.disassembler);
  Table t;
  t.row({"", "instructions", "memory", "f32", "integer", "f64", "special", "control", "wide bytes",
         "loads at once", "KiB in flight", "blocks", "exposed cycles"});
  for (const sass::PhaseLoop& l : r.loops) {
    const sass::Budget& b = l.budget;
    auto each = [&](int n) { return fmt::format("{:.1f}", b.per_element(n)); };
    t.row({title(variant, l), each(b.instructions), each(b.memory), each(b.floats),
           each(b.integers), each(b.doubles), each(b.special), each(b.control),
           fmt::format("{} %", 100 * b.wide_bytes / std::max(1, b.loaded + b.stored)),
           fmt::format("{}/{}", b.loads_at_once, b.loads),
           fmt::format("{:.0f}", sass::kib_in_flight(b, l.occupancy)),
           fmt::format("{}", l.occupancy.blocks), fmt::format("{}", b.exposed_cycles)});
  }
  *out += t.text();
  for (const sass::PhaseLoop& l : r.loops) {
    for (const std::string& f : l.findings) *out += fmt::format("  {}: {}\n", title(variant, l), f);
  }
}

}  // namespace

std::string sass_text(const Variant& variant, const std::vector<sass::Report>& reports,
                      const std::vector<uint64_t>& elements) {
  std::string out;
  for (const sass::Report& r : reports) counts(&out, variant, r);
  uint64_t all = 0;
  for (uint64_t n : elements) all += n;
  out += fmt::format(
      "\nPredicted times of the streaming loops, {} parameters: the slowest of issue, units, one "
      "warp's latency and\n"
      "memory, as if the others were hidden behind it, for the block that has most to do. A bound, "
      "not a measurement;\n"
      "launch, barriers and the work per chunk and tensor come on top of it.\n",
      with_commas(all));
  Table t;
  t.left(5);
  t.row({"", "ms", "copy's share", "slowest", "ms at copy's speed", "by phase"});
  for (const sass::Gpu& gpu : sass::gpus()) {
    for (const sass::Report& r : reports) {
      if (r.arch != gpu.arch) continue;
      double ms = 0, floor = 0;
      std::map<std::string_view, double> by_limiter;
      std::vector<std::string> parts;
      for (const sass::PhaseLoop& l : r.loops) {
        uint64_t n = elements[static_cast<size_t>(l.signature)];
        sass::Prediction p = sass::predict(l.budget, l.occupancy, gpu, n, l.splits);
        ms += p.ms;
        by_limiter[p.limiter] += p.ms;
        floor += static_cast<double>(n) * l.budget.per_element(l.budget.loaded + l.budget.stored) /
                 gpu.copy_tb_s * 1e-9;
        parts.push_back(fmt::format("{} {:.3f} ({})", title(variant, l), p.ms, p.limiter));
      }
      if (by_limiter.empty()) continue;
      auto slowest =
          std::max_element(by_limiter.begin(), by_limiter.end(),
                           [](const auto& x, const auto& y) { return x.second < y.second; });
      t.row({std::string(gpu.name), fmt::format("{:.3f}", ms), fmt::format("{:.2f}", floor / ms),
             std::string(slowest->first), fmt::format("{:.3f}", floor),
             fmt::format("{}", fmt::join(parts, ", "))});
    }
  }
  return out + t.text();
}

}  // namespace stepfuse::cli
