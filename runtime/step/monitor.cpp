// Rules over the statistics of finished steps. Knows the runtime's parts and fmt.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <stepfuse/monitor.hpp>

#include "runtime/step/internals.hpp"
#include "runtime/step/step_impl.hpp"

namespace stepfuse {
namespace {

// Makes a rule that tests one report. For a per-group or per-tensor report, one value suffices. The
// result is empty if the step does not have the report.
Rule on_report(std::string name, std::string report, int in_a_row,
               std::function<bool(double)> test) {
  return {std::move(name),
          [report = std::move(report), test = std::move(test)](const StepStats& s) {
            if (auto v = s.find(report)) return std::optional<bool>(test(*v));
            const std::vector<double>* list = s.find_list(report);
            if (list == nullptr) return std::optional<bool>();
            return std::optional<bool>(std::any_of(list->begin(), list->end(), test));
          },
          in_a_row};
}

std::string json_number(double v) {
  if (std::isnan(v)) return "\"nan\"";  // a NaN of either sign
  return std::isfinite(v) ? fmt::format("{}", v) : fmt::format("\"{}\"", v);
}

}  // namespace

Rule scale_below(double limit) {
  return on_report(fmt::format("scale_below_{}", limit), "loss_scale", 1,
                   [limit](double v) { return v < limit; });
}
Rule norm_near(double max_norm, double share, int in_a_row) {
  return on_report(fmt::format("norm_above_{}_of_{}", share, max_norm), "grad_norm", in_a_row,
                   [=](double v) { return v > share * max_norm; });
}
Rule never_clipped(int steps) {
  Rule clipped = on_report("never_clipped", "clip_coef", steps, [](double v) { return !(v >= 1); });
  clipped.holds = [was = clipped.holds](const StepStats& s) {
    std::optional<bool> any = was(s);
    return any ? std::optional<bool>(!*any) : any;
  };
  return clipped;
}
Rule skipped_in_a_row(int steps) {
  return on_report(fmt::format("skipped_{}_in_a_row", steps), "skipped", steps,
                   [](double v) { return v != 0; });
}

void Monitor::add(Rule rule, Handler handler) {
  if (rule.in_a_row < 1) throw Error(ErrorKind::usage, "a rule holds for at least 1 step");
  if (!rule.holds || !handler) {
    throw Error(ErrorKind::usage, "a rule needs a condition and a handler: one of them is null");
  }
  watches_.push_back({std::move(rule), std::move(handler)});
}

void Monitor::feed(const StepStats& stats) {
  for (size_t i = 0, count = watches_.size(); i < count; ++i) {
    Watch& w = watches_[i];
    std::optional<bool> holds = w.rule.holds(stats);
    if (!holds) continue;
    w.streak = *holds ? w.streak + 1 : 0;
    if (w.streak == 0) w.told = false;
    if (w.streak < w.rule.in_a_row || w.told) continue;
    w.told = true;
    std::string streak = w.rule.in_a_row > 1 ? fmt::format(", {} in a row", w.streak) : "";
    w.handler({w.rule, stats, fmt::format("{}: step {}{}", w.rule.name, stats.index, streak)});
  }
}

void Monitor::feed(const Step& step) {
  // Steps before a resumed one ran in a different process.
  next_ = std::max(next_, Internals::of(step).first_index());
  for (const StepStats& stats : step.history()) {
    if (stats.index < next_) continue;
    lost_ += stats.index - next_;
    next_ = stats.index + 1;
    feed(stats);
  }
}

std::string to_json_line(const StepStats& stats) {
  std::string line = fmt::format("{{\"step\":{}", stats.index);
  for (const auto& [name, value] : stats.values) {
    line += fmt::format(",\"{}\":{}", name, json_number(value));
  }
  for (const auto& [name, members] : stats.lists) {
    line += fmt::format(",\"{}\":[", name);
    for (size_t m = 0; m < members.size(); ++m) {
      line += (m == 0 ? "" : ",") + json_number(members[m]);
    }
    line += "]";
  }
  return line + "}";
}

}  // namespace stepfuse
