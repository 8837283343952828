// Steps made of an optimizer's formula and the pipeline around it, each printable as IR text. Knows
// ir only.
//
//   Program p = make_recipe("adamw", {.grad = DType::f16, .master = true, .clip = Clip::l2});
//
// Buffers, in this order where they exist: grad, weight (f32; with f32 masters the copy below f32
// that is only written), weight_scale, master, remainder or correction, then what the optimizer
// keeps (exp_avg, exp_avg_sq, max_exp_avg_sq, momentum_buffer, square_avg, grad_avg, sum), ema.
// States: step : <i64> counts a tensor's good steps; momentum_begun : <bool>; shared: scale : f32,
// growth_tracker and hysteresis_tracker : i32, what the last step added to them (…_change : i32), and
// with several steps on one scale
// pending_found_inf and pending_norm_overflow : bool. With tensor_flags counted and updated : <bool>,
// which the layout fills; with ema and a torch profile n_averaged : i64.
// Every argument has a fallback, the customary value of its peers (lr 0.001, growth_interval 2000).
// Reports: found_inf, grad_norm, clip_coef, norm_overflow, over_threshold, skipped, loss_scale (that the
// step's gradients have) and next_loss_scale (that the next ones will have); with --monitor
// first_nonfinite (a tensor, or -1), skipped_steps, skipped_in_a_row, stuck.
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <stepfuse/program.hpp>
#include <stepfuse/recipe_options.hpp>

#pragma GCC visibility push(default)
namespace stepfuse {

struct RecipeInfo {
  std::string_view name;
  std::string_view help;  // one line
};
std::vector<RecipeInfo> list_recipes();
bool is_recipe(std::string_view name);

// Throws Error{usage} for an unknown name or options that contradict each other, saying what to do.
// How its messages call options: as RecipeOptions does (".clip_per_group"), or as the command line
// ("--clip-per-group").
enum class OptionNames : uint8_t { members, flags };
Program make_recipe(std::string_view name, const RecipeOptions& options = {},
                    OptionNames names = OptionNames::members);

namespace formula {
struct Formula;
}

// An optimizer as its formula says it; cheap to copy.
//
//   Program p = make_recipe(parse_optimizer(text, "my.opt"), {.master = true, .clip = Clip::l2});
class Optimizer {
 public:
  explicit Optimizer(std::shared_ptr<const formula::Formula> formula)
      : formula_(std::move(formula)) {}
  std::string_view name() const;
  std::string_view help() const;  // one line
  std::string_view text() const;
  const formula::Formula& formula() const { return *formula_; }

 private:
  std::shared_ptr<const formula::Formula> formula_;
};

// Throws Error{parse} that shows the place. What depends on options, types among it, make_recipe finds.
Optimizer parse_optimizer(std::string_view text, std::string_view file = "<text>");
std::optional<Optimizer> built_in_optimizer(std::string_view name);
// Every option of the pipeline goes with every formula.
Program make_recipe(const Optimizer& optimizer, const RecipeOptions& options = {},
                    OptionNames names = OptionNames::members);

}  // namespace stepfuse
#pragma GCC visibility pop
