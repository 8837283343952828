// Makes steps from an optimizer's formula and the pipeline around it. Each can be printed as IR text. Knows
// ir only.
//
//   Program p = make_recipe("adamw", {.grad = DType::f16, .master = true, .clip = Clip::l2});
//
// Buffers, in this order if they exist: grad; weight (f32, or with f32 masters the low-precision copy that
// is only written); weight_scale; master, remainder or correction; the optimizer's own buffers (exp_avg,
// exp_avg_sq, max_exp_avg_sq, momentum_buffer, square_avg, grad_avg, sum); ema. States: step : <i64> counts
// a tensor's good steps; momentum_begun : <bool>. Shared states: scale : f32; growth_tracker and
// hysteresis_tracker : i32, and the last step's change of each (…_change : i32); if several steps use one
// scale, pending_found_inf and pending_norm_overflow : bool. With tensor_flags, counted and updated :
// <bool>, which the layout fills. With ema and a torch profile, n_averaged : i64. Every argument has a
// default, the customary value of its peers (lr 0.001, growth_interval 2000). Reports: found_inf,
// grad_norm, clip_coef, norm_overflow, over_threshold, skipped, loss_scale (the scale of this step's
// gradients) and next_loss_scale (that of the next step's). With --monitor also first_nonfinite (a tensor,
// or -1), skipped_steps, skipped_in_a_row, stuck.
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

// The names of options in error messages: as in RecipeOptions (".clip_per_group"), or as on the command
// line ("--clip-per-group").
enum class OptionNames : uint8_t { members, flags };
// Throws Error{usage} for an unknown name or for options that contradict each other, and says what to do.
Program make_recipe(std::string_view name, const RecipeOptions& options = {},
                    OptionNames names = OptionNames::members);

namespace formula {
struct Formula;
}

// An optimizer, defined by its formula; cheap to copy.
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

// Throws Error{parse} that shows the position. make_recipe() checks what depends on options, such as types.
Optimizer parse_optimizer(std::string_view text, std::string_view file = "<text>");
std::optional<Optimizer> built_in_optimizer(std::string_view name);
// Every option of the pipeline works with every formula.
Program make_recipe(const Optimizer& optimizer, const RecipeOptions& options = {},
                    OptionNames names = OptionNames::members);

}  // namespace stepfuse
#pragma GCC visibility pop
