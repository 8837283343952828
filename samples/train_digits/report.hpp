// The output of train_digits: a progress line, a summary table, a figure. Knows the trainer's
// results.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "samples/train_digits/svg.hpp"
#include "samples/train_digits/trainer.hpp"

namespace digits {

// One training in two forms of the same step.
struct Comparison {
  Scaling scaling = Scaling::off;
  TrainResult run;
  TrainResult other;
  bool same_bits() const { return run.digest == other.digest; }
};

// A bar that is redrawn on a terminal; elsewhere, a line for every fifth.
class Progress {
 public:
  Progress(std::string title, bool terminal) : title_(std::move(title)), terminal_(terminal) {}
  void show(int step, int steps);

 private:
  std::string title_;
  bool terminal_;
  int shown_ = -1;  // percent
};

std::string summary_table(const std::vector<Comparison>& runs, std::string_view form,
                          std::string_view other_form);
std::string time_lines(const Comparison& run, std::string_view form, std::string_view other_form);
Figure make_figure(const std::vector<Comparison>& runs);

}  // namespace digits
