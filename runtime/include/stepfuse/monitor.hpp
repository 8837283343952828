// Rules over the statistics of finished steps, without a sync: what a trainer hooks its logging or its
// learning-rate control to. Knows the public API.
//
//   sf::Monitor monitor;
//   monitor.add(sf::scale_below(1024), [](const sf::Finding& f) { log(f.message); });
//   monitor.add(sf::norm_near(max_norm, 0.9, 5), [&](const sf::Finding&) { lr *= 0.5; });
//   ...
//   monitor.feed(step);        // now and then; sees every step that is still in the ring
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include <stepfuse/stepfuse.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

// A condition that holds for `in_a_row` steps one after another. Steps that do not report what the
// condition asks for neither count nor interrupt.
struct Rule {
  std::string name;
  std::function<std::optional<bool>(const StepStats&)> holds;
  int in_a_row = 1;
};

// The loss scale fell under `limit`: gradients overflow again and again.
Rule scale_below(double limit);
// The gradient norm was above `share` of `max_norm` k times in a row: clipping is about to bite.
Rule norm_near(double max_norm, double share, int in_a_row);
// The last n steps were all left unclipped: max_norm does nothing.
Rule never_clipped(int steps);
// n steps in a row were skipped, for whatever reason.
Rule skipped_in_a_row(int steps);

struct Finding {
  const Rule& rule;
  const StepStats& stats;  // of the step that completed the streak
  std::string message;     // "scale_below_1024: step 311"
};

class Monitor {
 public:
  using Handler = std::function<void(const Finding&)>;
  // The handler is called once when a streak is complete, and again only after it was interrupted. It
  // may add rules, which see the next step first.
  void add(Rule rule, Handler handler);
  // Looks at the steps finished since the last call. Steps that left the ring meanwhile are counted
  // in lost() and interrupt no streak.
  void feed(const Step& step);
  void feed(const StepStats& stats);
  uint64_t lost() const { return lost_; }

 private:
  struct Watch {
    Rule rule;
    Handler handler;
    int streak = 0;
    bool told = false;
  };
  std::deque<Watch> watches_;  // stay where they are when a handler adds one
  uint64_t next_ = 0;
  uint64_t lost_ = 0;
};

// One line of JSON: {"step":311,"grad_norm":0.25,…}. What is not finite becomes a string, a report of
// groups or tensors an array.
std::string to_json_line(const StepStats& stats);

}  // namespace stepfuse
#pragma GCC visibility pop
