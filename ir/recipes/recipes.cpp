// Puts an optimizer and the pieces around it together. Knows ir and fmt.
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>
#include <stepfuse/format.hpp>
#include <stepfuse/recipes.hpp>

#include "ir/formula/built_in.hpp"
#include "ir/formula/lower.hpp"
#include "ir/formula/parser.hpp"
#include "ir/formula/resolve.hpp"
#include "ir/program/verifier.hpp"
#include "ir/recipes/accumulate.hpp"
#include "ir/recipes/centralize.hpp"
#include "ir/recipes/guard.hpp"
#include "ir/recipes/layers.hpp"
#include "ir/recipes/loss_scale.hpp"
#include "ir/recipes/orders.hpp"
#include "ir/recipes/parameter.hpp"
#include "ir/recipes/settings.hpp"
#include "ir/semantics/fp_env.hpp"
#include "ir/text/near_names.hpp"

namespace stepfuse {
namespace recipes {

namespace {

using formula::Formula;
using formula::Statement;

const Formula* find(std::string_view name) {
  for (const auto& f : formula::built_in_formulas()) {
    if (f->name == name) return f.get();
  }
  return nullptr;
}

// Returns the arguments that scale a hyperparameter per tensor, for all names in --per-tensor.
std::vector<ArgSpec> tensor_scales(const Formula& formula, const RecipeOptions& o,
                                   const std::vector<ArgSpec>& args) {
  std::vector<ArgSpec> scales;
  std::vector<std::string> known;
  for (const ArgSpec& a : args) known.push_back(a.name);
  for (const std::string& name : o.per_tensor) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      throw Error(ErrorKind::usage, fmt::format("--per-tensor={}: {} has no such hyperparameter{}",
                                                name, formula.name, did_you_mean(name, known)));
    }
    std::string scale = scale_of(name);
    if (std::ranges::find(scales, scale, &ArgSpec::name) != scales.end()) {
      throw Error(ErrorKind::usage,
                  fmt::format("--per-tensor={}: there is an argument '{}' already", name, scale));
    }
    known.push_back(scale);
    scales.push_back({scale, 1, {DType::f64, per::tensor}});
  }
  return scales;
}

// In the order in which a trainer thinks of them.
std::vector<ArgSpec> all_args(const Formula& formula,
                              const std::vector<const Statement*>& statements, const Settings& s) {
  const RecipeOptions& o = s.options;
  constexpr Type kF64 = {DType::f64, per::step};
  std::vector<ArgSpec> args;
  for (const Statement* statement : statements) {
    if (statement->kind == Statement::Kind::hyper)
      args.push_back({statement->name, statement->number});
  }
  if (s.weight_decay != WeightDecay::none) args.push_back({"weight_decay", formula.weight_decay});
  for (const ArgSpec& scale : tensor_scales(formula, o, args)) args.push_back(scale);
  if (o.update_clip != UpdateClip::none) args.push_back({"max_update", 1});
  if (o.ema) args.push_back({"ema_decay", 0.999});
  if (s.clips_norm()) {
    args.push_back({"max_norm", 1, {DType::f64, o.clip_per_group ? per::group : per::step}});
  }
  if (o.clip == Clip::value) args.push_back({"max_value", 1});
  if (s.clips_rows()) {
    args.push_back({"clip_factor", 0.01});
    args.push_back({"clip_eps", 1e-3});
  }
  if (o.clip == Clip::zclip) args.push_back({"clip_z", 2.5, kF64});
  if (o.clip == Clip::adagc) args.push_back({"clip_growth", 1.05, kF64});
  if (o.clip == Clip::zclip || o.clip == Clip::adagc) {
    args.push_back({"clip_decay", o.clip == Clip::zclip ? 0.97 : 0.98, kF64});
    args.push_back({"clip_warmup", o.clip == Clip::zclip ? 25 : 100, kF64});
  }
  if (o.skip_norm) args.push_back({"skip_norm", 100, kF64});
  if (o.accumulated) args.push_back({"accumulation", o.window ? 0 : 1, kF64});
  if (o.grad_scale) args.push_back(grad_scale_arg());
  if (o.external_norm) args.push_back({"external_norm", {}, {DType::f32, per::step}});
  if (o.external_found_inf) {
    args.push_back({"external_found_inf", {}, {DType::boolean, per::step}});
  }
  if (o.monitor) args.push_back({"max_streak", 100, {DType::i32, per::step}});
  for (const ArgSpec& a : loss_scale_args(o)) args.push_back(a);
  return args;
}

// Refuses formats with per-column values or squares. A block has elements of several columns. Blocks count from the
// start of a tensor, and squares from the start of a row.
void check_blocks(const Program& program, const RecipeOptions& o, std::string_view instead) {
  std::vector<Granularity> all = granularities_of(program);
  if (std::any_of(all.begin(), all.end(), [](Granularity g) { return is_tile(g) && g.rows > 1; })) {
    throw Error(
        ErrorKind::usage,
        fmt::format(
            "--copy-scale={} counts its blocks from the start of each row, and other blocks "
            "count from the start of the tensor; use {}, or a different --copy-scale",
            o.copy_scale.name(), instead));
  }
  if (std::find(all.begin(), all.end(), per::column) == all.end()) return;
  throw Error(
      ErrorKind::usage,
      fmt::format("{} has per-column values, and a block has elements of several columns; use {}",
                  program.name, instead));
}

// The step with its weights, or their copies, in the format that the options say.
Program with_weights(const Program& program, const Context& c) {
  const std::optional<Format>& format = c.settings.weight_format;
  if (!format) return program;
  for (const Buffer& part : format->encode.buffers) {
    if (block_of(part.at) > 1 && part.at.rows == 1) {
      check_blocks(program, c.settings.options, "another --copy-scale");
    }
  }
  return with_lower_bits(program, "weight", *format, c.random);
}

// Refuses an entry for moments that the step does not have.
void check_moment(const StoredMoment& e, const std::vector<std::string>& moments,
                  std::string_view step) {
  bool has_it = e.moment.empty()
                    ? e.form == "f32" || !moments.empty()
                    : std::find(moments.begin(), moments.end(), e.moment) != moments.end();
  if (has_it) return;
  if (!moments.empty()) {
    throw Error(ErrorKind::usage, fmt::format("--{}: {} has no moment '{}'; it has {}", e.option,
                                              step, e.moment, fmt::join(moments, ", ")));
  }
  std::string_view entry = e.moment.empty() ? "moments" : std::string_view(e.moment);
  throw Error(ErrorKind::usage,
              fmt::format("--{}: {} has no moments; leave {} out", e.option, step,
                          e.option == "store" ? fmt::format("'{}'", entry) : "it"));
}

// The step with its moments in the formats that the options say.
Program with_moments(Program program, const Context& c) {
  const RecipeOptions& o = c.settings.options;
  for (const StoredMoment& e : o.moments.entries()) check_moment(e, c.moments, program.name);
  if (o.moments.has_format()) check_blocks(program, o, "--moments=f32 or bf16");
  for (const std::string& moment : c.moments) {
    const StoredMoment* stored = o.moments.find(moment);
    if (stored == nullptr || dtype_from_name(stored->form)) continue;
    program = with_format(program, moment, built_in_format(stored->form),
                          stored->from.value_or(o.moments_below));
  }
  return program;
}

// Refuses options of the weight for a formula that leaves the weight to a different step.
void check_other_weights(const Formula& formula, const RecipeOptions& o) {
  if (!o.master && !o.weight_rounding && !o.model && !o.ema) return;
  throw Error(
      ErrorKind::usage,
      fmt::format("{} assigns nothing to the weight; leave out --master, --weight-rounding, "
                  "--model and --ema",
                  formula.name));
}

// Thrown if the step declares a name of the formula's twice.
struct Clash {
  const Statement* declared;
  std::string_view what;  // "a buffer"
};

template <class T>
std::set<std::string_view> find_repeated(const std::vector<T>& declared) {
  std::set<std::string_view> seen, repeated;
  for (const T& d : declared) {
    if (!seen.insert(d.name).second) repeated.insert(d.name);
  }
  return repeated;
}

// Throws Clash for the last declaration whose name the step has twice.
void check_names(const std::vector<const Statement*>& statements, const Program& step) {
  using enum Statement::Kind;
  auto args = find_repeated(step.args), buffers = find_repeated(step.buffers);
  auto states = find_repeated(step.states);
  for (auto it = statements.rbegin(); it != statements.rend(); ++it) {
    const Statement* s = *it;
    bool is_buffer = s->kind == moment || s->kind == input || s->kind == output;
    bool is_state = s->kind == state || s->kind == report;
    if (s->kind == hyper && args.contains(s->name)) throw Clash{s, "an argument"};
    if (is_buffer && buffers.contains(s->name)) throw Clash{s, "a buffer"};
    if (is_state && states.contains(s->name)) throw Clash{s, "a state or report"};
  }
}

// Returns the step's declarations, with those that with_weights() will add.
Program declarations(const Program& step, const std::optional<Format>& weights) {
  Program p = step;
  if (!weights) return p;
  for (const Buffer& part : weights->encode.buffers) {
    if (part.name != "x") p.buffers.push_back(part);
  }
  for (const State& s : weights->encode.states) p.states.push_back(s);
  return p;
}

Program build_step(const Formula& formula, const std::vector<const Statement*>& statements,
                   const Settings& settings) {
  const RecipeOptions& options = settings.options;
  bool updates = formula::assigns_weight(statements);
  bool reads =
      updates || settings.clips_rows() || formula::reads_weight(statements, settings.weight_decay);
  if (!updates) check_other_weights(formula, options);
  Builder b{formula.name};
  Context c(b, settings);
  c.declare(all_args(formula, statements, settings));

  Verdict verdict;
  Gradient gradient = load_gradient(c, verdict);
  close_window(c, verdict);
  Parameter parameter;
  if (reads) parameter = declare_parameter(c, updates ? Access::inout : Access::in);
  Value unclipped = gradient.value;
  measure_norm(c, gradient, verdict);
  if (settings.clips_rows()) {
    c.stage("clip");
    load_parameter(c, parameter);
  }
  clip_gradient(c, gradient, verdict);
  decide(c, verdict);
  keep_averages(c, verdict);

  gradient.value = centralize(c, gradient.value);

  c.stage("optimizer");
  if (reads && !settings.clips_rows()) load_parameter(c, parameter);
  c.gradient = options.maximize ? (-gradient.value).named("g_ascent") : gradient.value;
  c.gradient_buffer = gradient.buffer;
  if (Value result = formula::lower(formula, statements, c)) {
    Value new_weight = store_parameter(c, parameter, result.named("w_new"));
    update_ema(c, new_weight);
    store_copy(c, parameter, new_weight);
  }
  zero_gradient(c, gradient);
  update_loss_scale(c, verdict);
  report(c, verdict);
  report_layers(c, unclipped, parameter);
  check_names(statements, declarations(b.program(), settings.weight_format));
  Program step = with_orders(with_moments(with_weights(b.finish(), c), c), options);
  check_names(statements, step);
  verify(step);
  return step;
}

// Returns the first option, in the table's order, with which the step has the name; "" if every step has it.
std::string find_maker(const Formula& formula, const std::vector<const Statement*>& statements,
                       const RecipeOptions& options, const Clash& clash) {
  RecipeOptions some;
  auto has_name = [&] {
    try {
      build_step(formula, statements, settle(formula, some));
    } catch (const Clash& found) {
      return found.declared == clash.declared;
    } catch (const Error&) {  // this option needs a later one
    }
    return false;
  };
  std::string last;
  for (const RecipeOption& row : recipe_option_table()) {
    std::string value = row.get(options);
    if (value == row.get(some)) continue;
    if (has_name()) break;
    row.set(some, value);
    last = fmt::format("--{}{}{}", row.name, row.values.empty() ? "" : "=",
                       row.values.empty() ? "" : value);
  }
  return last;
}

Program make_step(const Formula& formula, const RecipeOptions& options, OptionNames names) {
  Settings settings = settle(formula, options);
  std::vector<const Statement*> statements = formula::resolve(formula, settings);
  try {
    return build_step(formula, statements, settings);
  } catch (const Clash& clash) {
    std::string maker = find_maker(formula, statements, options, clash);
    if (!maker.empty()) maker = fmt::format(", which {} makes", maker);
    if (names == OptionNames::members) maker = with_member_names(maker);
    formula.fail(clash.declared->loc,
                 fmt::format("there is already {} '{}'{}; choose a different name", clash.what,
                             clash.declared->name, maker));
  }
}

Program make_scale_update(const RecipeOptions& given) {
  Settings settings;
  settings.options = given;
  settings.options.scale_role = ScaleRole::last;
  if (!settings.scaled()) settings.options.loss_scale = LossScale::dynamic;
  if (settings.options.loss_scale == LossScale::fixed) {
    throw Error(ErrorKind::usage, "--loss-scale=fixed is never updated; use --loss-scale=dynamic");
  }
  Builder b("loss_scale_update");
  Context c(b, settings);
  c.declare(loss_scale_args(settings.options));
  update_loss_scale(c, {});
  return b.finish();
}

// Recipes without an optimizer.
struct Special {
  std::string_view name;
  std::string_view help;
  Program (*make)(const RecipeOptions&);
  std::vector<std::string_view> options;  // those of the table that it takes
};
const Special kSpecials[] = {
    {"accumulate",
     "adds a micro-batch's gradients to f32 sums",
     make_accumulate,
     {"grad", "grad-scale", "zero-grad"}},
    {"loss_scale_update",
     "updates a loss scale from the flags that several steps noted",
     make_scale_update,
     {"loss-scale", "scale-bounds", "scale-role", "profile"}},
};

// Refuses what such a recipe would silently ignore.
void check_special(const Special& special, const RecipeOptions& o) {
  for (const RecipeOption& row : recipe_option_table()) {
    bool takes = std::find(special.options.begin(), special.options.end(), row.name) !=
                 special.options.end();
    if (takes || row.get(o) == row.get(RecipeOptions{})) continue;
    throw Error(ErrorKind::usage, fmt::format("{} has no --{}; it takes --{}", special.name,
                                              row.name, fmt::join(special.options, ", --")));
  }
}

const Special* find_special(std::string_view name) {
  for (const Special& s : kSpecials) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

}  // namespace
}  // namespace recipes

std::vector<RecipeInfo> list_recipes() {
  std::vector<RecipeInfo> list;
  for (const auto& f : formula::built_in_formulas()) list.push_back({f->name, f->help});
  for (const recipes::Special& s : recipes::kSpecials) list.push_back({s.name, s.help});
  return list;
}

bool is_recipe(std::string_view name) {
  return recipes::find_special(name) != nullptr || recipes::find(name) != nullptr;
}

namespace {

Program make(std::string_view name, const RecipeOptions& options, OptionNames names) {
  if (const recipes::Special* s = recipes::find_special(name)) {
    recipes::check_special(*s, options);
    recipes::check_values(options);
    return s->make(options);
  }
  if (const formula::Formula* f = recipes::find(name)) {
    return recipes::make_step(*f, options, names);
  }
  std::vector<std::string_view> known;
  for (const RecipeInfo& r : list_recipes()) known.push_back(r.name);
  throw Error(ErrorKind::usage,
              fmt::format("there is no recipe '{}'; there are {}", name, fmt::join(known, ", ")));
}

// Runs `make` with the floating-point mode of the kernels, and its messages as `names` says.
template <class Make>
Program guarded(Make&& make, OptionNames names) {
  FpEnvGuard guard;  // constants are rounded as the kernels round
  if (names == OptionNames::flags) return make();
  try {
    return make();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
    throw Error(e.kind(), recipes::with_member_names(e.what()), e.loc());
  }
}

}  // namespace

Program make_recipe(std::string_view name, const RecipeOptions& options, OptionNames names) {
  return guarded([&] { return make(name, options, names); }, names);
}

Program make_recipe(const Optimizer& optimizer, const RecipeOptions& options, OptionNames names) {
  return guarded(
      [&] {
        Program program = recipes::make_step(optimizer.formula(), options, names);
        formula::check_known(optimizer.formula());
        formula::check_used(optimizer.formula());  // last: a misspelt name leaves its own unused
        return program;
      },
      names);
}

Optimizer parse_optimizer(std::string_view text, std::string_view file) {
  auto formula = formula::parse_formula(text, file, formula::parse_built_in);
  return Optimizer(std::make_shared<formula::Formula>(std::move(formula)));
}

std::optional<Optimizer> built_in_optimizer(std::string_view name) {
  for (const auto& f : formula::built_in_formulas()) {
    if (f->name == name) return Optimizer(f);
  }
  return std::nullopt;
}

std::string_view Optimizer::name() const { return formula_->name; }
std::string_view Optimizer::help() const { return formula_->help; }
std::string_view Optimizer::text() const { return formula_->text; }

}  // namespace stepfuse
