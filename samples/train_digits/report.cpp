// Turns results into a table and a figure. Knows the trainer's results and fmt.
#include "samples/train_digits/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include <fmt/format.h>

namespace digits {
namespace {

double mean(const std::vector<Sample>& samples) {
  double sum = 0;
  for (const Sample& s : samples) sum += s.value;
  return samples.empty() ? 0 : sum / static_cast<double>(samples.size());
}

// Means over about 100 stretches of the run; a stretch without a finite value is left out.
template <class Get>
std::vector<Point> averaged(const std::vector<StepRecord>& steps, Get get) {
  std::vector<Point> out;
  size_t stretch = std::max<size_t>(1, steps.size() / 100);
  for (size_t first = 0; first < steps.size(); first += stretch) {
    size_t end = std::min(steps.size(), first + stretch);
    double sum = 0;
    int count = 0;
    for (size_t i = first; i < end; ++i) {
      if (!std::isfinite(get(steps[i]))) continue;
      sum += get(steps[i]);
      ++count;
    }
    if (count > 0) out.push_back({static_cast<double>(first + end) / 2, sum / count});
  }
  return out;
}

std::vector<Point> points_of(const std::vector<Sample>& samples) {
  std::vector<Point> out;
  for (const Sample& s : samples) out.push_back({static_cast<double>(s.step), s.value});
  return out;
}

double last_loss(const TrainResult& r) {
  auto points = averaged(r.steps, [](const StepRecord& s) { return s.loss; });
  return points.empty() ? 0 : points.back().y;
}

template <class Is>
auto count(const TrainResult& r, Is is) {
  return std::count_if(r.steps.begin(), r.steps.end(), is);
}

}  // namespace

void Progress::show(int step, int steps) {
  int percent = 100 * step / steps;
  if (percent == shown_) return;
  shown_ = percent;
  if (terminal_) {
    std::string bar(static_cast<size_t>(percent) * 30 / 100, '#');
    std::fputs(fmt::format("\r{:<28}[{:<30}] {:3} %", title_, bar, percent).c_str(), stdout);
    if (percent == 100) std::fputs("\r\033[K", stdout);
  } else if (percent % 20 == 0 && percent > 0) {
    std::fputs(fmt::format("{:<28}{:3} %\n", title_, percent).c_str(), stdout);
  }
  std::fflush(stdout);
}

std::string summary_table(const std::vector<Comparison>& runs, std::string_view form,
                          std::string_view other_form) {
  std::string out = fmt::format("{:<9}{:>10}{:>12}{:>10}{:>9}{:>9}{:>8}{:>11}   {}\n", "loss",
                                "underflow", "train loss", "accuracy", "skipped", "clipped",
                                "scale", "grad norm", "weights and moments");
  out +=
      fmt::format("{:<9}{:>10}{:>12}{:>10}{:>9}{:>9}{:>8}{:>11}   {} = {}\n", "scaling", "(mean)",
                  "(last)", "(test)", "steps", "steps", "(last)", "(last)", form, other_form);
  for (const Comparison& c : runs) {
    const TrainResult& r = c.run;
    auto norms = averaged(r.steps, [](const StepRecord& s) { return s.grad_norm; });
    std::string digests = c.same_bits()
                              ? fmt::format("{:016x} yes", r.digest)
                              : fmt::format("{:016x} NO: {:016x}", r.digest, c.other.digest);
    out += fmt::format("{:<9}{:>9.1f}%{:>12.5f}{:>9.1f}%{:>9}{:>9}{:>8}{:>11.2g}   {}\n",
                       name(c.scaling), 100 * mean(r.underflow), last_loss(r),
                       100 * r.test_accuracy.back().value,
                       count(r, [](const StepRecord& s) { return s.skipped; }),
                       count(r, [](const StepRecord& s) { return s.clipped; }),
                       fmt::format("2^{:g}", std::log2(r.steps.back().loss_scale)),
                       norms.empty() ? 0 : norms.back().y, digests);
  }
  return out;
}

std::string time_lines(const Comparison& c, std::string_view form, std::string_view other_form) {
  auto line = [](const TrainResult& r, std::string_view which) {
    double share = r.step_us / (r.step_us + r.network_us);
    std::string compile = r.compiled ? fmt::format("compiled in {:.0f} ms", r.compile_ms)
                                     : std::string("kernel from the cache");
    return fmt::format(
        "  {:<8} {:6.1f} us in the step, {:6.1f} us in the network ({:.1f} % of the "
        "time is the step's), {}\n",
        which, r.step_us, r.network_us, 100 * share, compile);
  };
  return line(c.run, form) + line(c.other, other_form);
}

Figure make_figure(const std::vector<Comparison>& runs) {
  Panel accuracy{"Test accuracy", "", {Axis::Scale::percent, 0, 1}, {}};
  Panel underflow{"Gradients lost to underflow",
                  "zero in f16, not zero in f32",
                  {Axis::Scale::percent, 0, 1},
                  {}};
  Panel loss{"Training loss", "mean squared error", {Axis::Scale::decades}, {}};
  Panel scale{
      "Loss scale", "× a skipped step: the gradients overflowed", {Axis::Scale::powers_of_two}, {}};
  Panel rate{"Learning rate", "data of each launch: nothing is compiled again", {}, {}};
  Panel norm{"Gradient norm", "unscaled, before clipping", {Axis::Scale::decades}, {}};
  Figure figure;
  for (const Comparison& c : runs) {
    size_t style = figure.legend.size();
    const std::vector<StepRecord>& steps = c.run.steps;
    accuracy.series.push_back({style, points_of(c.run.test_accuracy)});
    underflow.series.push_back({style, points_of(c.run.underflow)});
    loss.series.push_back({style, averaged(steps, [](const StepRecord& s) { return s.loss; })});
    norm.series.push_back(
        {style, averaged(steps, [](const StepRecord& s) { return s.grad_norm; })});
    if (c.scaling == Scaling::dynamic) {
      rate.series.push_back({style, averaged(steps, [](const StepRecord& s) { return s.lr; })});
    }
    Series scales{style, {}, true};
    for (size_t i = 0; i < steps.size(); ++i) {
      bool edge = i == 0 || i + 1 == steps.size();
      if (edge || steps[i].loss_scale != steps[i - 1].loss_scale) {
        scales.points.push_back({static_cast<double>(i), steps[i].loss_scale});
      }
      if (steps[i].skipped) scales.events.push_back(static_cast<double>(i));
    }
    scale.series.push_back(std::move(scales));
    figure.legend.push_back(fmt::format("loss scaling {}", name(c.scaling)));
  }
  figure.title = "Handwritten digits with f16 gradients: why the loss is scaled";
  figure.subtitle = fmt::format(
      "{} parameters, f32 master weights, AdamW with clipping, the optimizer step made by "
      "stepfuse",
      runs.front().run.parameters);
  figure.x_label = "optimizer steps";
  figure.panels = {accuracy, underflow, loss, scale, norm, rate};
  return figure;
}

}  // namespace digits
