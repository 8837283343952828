// Rules over the statistics of finished steps, for a trainer's logging or control of the learning rate. Nothing waits
// for the device. Knows the public API.
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

/// A condition that holds for `in_a_row` steps one after another. It returns nothing for a step that does not report
/// what it needs; such a step neither counts nor interrupts.
struct Rule {
  std::string name;
  std::function<std::optional<bool>(const StepStats&)> holds;
  int in_a_row = 1;
};

/// Holds if the loss scale is below `limit`: gradients keep overflowing.
/// @thread any
Rule scale_below(double limit);
/// Holds if the gradient norm is above `share` of `max_norm`: clipping is about to start.
/// @thread any
Rule norm_near(double max_norm, double share, int in_a_row);
/// Holds if none of the last `steps` steps was clipped: max_norm has no effect.
/// @thread any
Rule never_clipped(int steps);
/// Holds if `steps` steps in a row were skipped, for any reason.
/// @thread any
Rule skipped_in_a_row(int steps);

/// A rule that has held often enough. Both references are valid until the handler returns.
struct Finding {
  const Rule& rule;
  const StepStats& stats;  ///< of the step that completed the streak
  std::string message;     ///< "scale_below_1024: step 311"
};

/// Calls handlers for rules that hold.
/// @thread one
class Monitor {
 public:
  using Handler = std::function<void(const Finding&)>;
  /// Adds a rule. The handler is called once when a streak is complete, and again only after the streak was
  /// interrupted. It may add rules, which see the next step first. Errors that it throws leave feed().
  void add(Rule rule, Handler handler);
  /// Looks at the steps finished since the last call. Steps that left the ring meanwhile are counted in lost() and
  /// interrupt no streak.
  /// @throws what a rule or a handler throws; Error{usage} and Error{device} as Step::history()
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

/// Returns one line of JSON: {"step":311,"grad_norm":0.25,…}. A number that is not finite becomes a string, and a
/// report per group or tensor becomes an array.
/// @thread any
std::string to_json_line(const StepStats& stats);

}  // namespace stepfuse
#pragma GCC visibility pop
