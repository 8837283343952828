// The table of recipe options. Knows ir and fmt.
#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>
#include <stepfuse/format.hpp>
#include <stepfuse/recipe_options.hpp>

#include "ir/formula/built_in.hpp"
#include "ir/formula/resolve.hpp"
#include "ir/recipes/store.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {

using Options = RecipeOptions;

constexpr uint64_t kMostElements = uint64_t{1} << 44;

RecipeOption flag(std::string_view name, bool Options::* member, std::string_view help) {
  return {name,
          {},
          "true",
          help,
          [member](Options& o, std::string_view v) { o.*member = v != "false"; },
          [member](const Options& o) { return std::string(o.*member ? "true" : "false"); }};
}

RecipeOption formula_flag(std::string_view name, bool Options::* member, std::string_view help) {
  RecipeOption row = flag(name, member, help);
  row.of_formula = true;
  return row;
}

template <class T>
using Choices = std::vector<std::pair<std::string_view, T>>;

template <class T>
std::string_view name_of(const Choices<T>& choices, T value) {
  for (const auto& [text, v] : choices) {
    if (v == value) return text;
  }
  return "?";
}

template <class T>
std::vector<std::string_view> texts_of(const Choices<T>& choices) {
  std::vector<std::string_view> texts;
  for (const auto& c : choices) texts.push_back(c.first);
  return texts;
}

// Member is T or std::optional<T>.
template <class T, class Member>
RecipeOption choice(std::string_view name, Member Options::* member, const Choices<T>& choices,
                    std::string_view bare, std::string_view help) {
  return {name,
          texts_of(choices),
          bare,
          help,
          [member, choices](Options& o, std::string_view v) {
            for (const auto& [text, value] : choices) {
              if (text == v) o.*member = value;
            }
          },
          [member, choices](const Options& o) -> std::string {
            if constexpr (std::is_same_v<Member, T>) {
              return std::string(name_of(choices, o.*member));
            } else {
              return (o.*member).has_value() ? std::string(name_of(choices, *(o.*member))) : "";
            }
          }};
}

// A set of storage types separated by '|' or ','.
void set_grad(Options& o, std::string_view text) {
  DTypeSet set;
  for (std::string_view word : split(text, "|,")) {
    std::optional<DType> t = dtype_from_name(word);
    if (!t || !kFloatStorage.contains(*t)) {
      throw Error(ErrorKind::usage,
                  fmt::format("--grad: '{}' is not one of {}; several are written f16,f32", word,
                              names(kFloatStorage, ", ")));
    }
    set = set | *t;
  }
  if (set.empty()) {
    throw Error(ErrorKind::usage,
                fmt::format("--grad needs at least one of {}", names(kFloatStorage, ", ")));
  }
  o.grad = set;
}

std::string get_grad(const Options& o) { return names(o.grad & kFloatStorage, "|"); }

Choices<DType> choices_of(DTypeSet set) {
  Choices<DType> choices;
  for (DType t : set) choices.emplace_back(stepfuse::name(t), t);
  return choices;
}

// Names separated by '|' or ',', each once.
RecipeOption names_option(std::string_view name, std::vector<std::string> Options::* member,
                          std::vector<std::string_view> values, std::string_view help) {
  RecipeOption row = {
      name,
      std::move(values),
      "",
      help,
      [member](Options& o, std::string_view text) {
        std::vector<std::string>& list = o.*member;
        list.clear();
        for (std::string_view word : split(text, "|,")) {
          bool known = std::find(list.begin(), list.end(), word) != list.end();
          if (!word.empty() && !known) list.emplace_back(word);
        }
      },
      [member](const Options& o) { return fmt::format("{}", fmt::join(o.*member, "|")); }};
  row.open = true;
  return row;
}

RecipeOption alias(RecipeOption row) {
  row.is_alias = true;
  return row;
}

// A storage type or a format for all moments, or one per moment.
RecipeOption moments_option() {
  std::vector<std::string_view> values = {"f32", "bf16"};
  for (std::string_view name : list_formats()) values.push_back(name);
  RecipeOption row = {"moments",
                      std::move(values),
                      "",
                      "type or format of the moments; per moment: exp_avg=int8,exp_avg_sq=sqrt8",
                      [](Options& o, std::string_view text) { o.moments = text; },
                      [](const Options& o) { return o.moments.text(); }};
  row.open = true;
  return alias(std::move(row));
}

// Sets several of the members at once, which print themselves as the aliases.
RecipeOption store_option() {
  RecipeOption row = {"store",
                      {"weight=bf16+ecc24", "weight=f8e4m3:mx", "moments=fp8", "exp_avg@4096=fp8"},
                      "",
                      "how buffers are stored, BUFFER[@MIN]=FORM: types, formats, weights with "
                      "their missing bits, scaled copies",
                      recipes::set_store,
                      [](const Options&) { return std::string(); }};
  row.open = true;
  return row;
}

std::vector<std::pair<std::string_view, CopyScale>> copy_scales() {
  std::vector<std::pair<std::string_view, CopyScale>> choices;
  choices.emplace_back(CopyScale::none.name(), CopyScale::none);
  for (std::string_view name : list_copy_formats()) choices.emplace_back(name, CopyScale(name));
  return choices;
}

RecipeOption moments_below_option() {
  RecipeOption row = {
      "moments-below",
      {"4096"},
      "",
      "with a format in --moments: tensors with fewer elements keep f32 moments",
      [](Options& o, std::string_view text) {
        auto elements = parse_number<uint64_t>(text);
        if (elements && *elements <= kMostElements) {
          o.moments_below = *elements;
          return;
        }
        throw Error(
            ErrorKind::usage,
            fmt::format(
                "--moments-below: '{}' is not a number of elements; write one, such as 4096",
                text.substr(0, 40)));
      },
      [](const Options& o) { return o.moments_below == 0 ? "" : std::to_string(o.moments_below); }};
  row.open = true;
  return alias(std::move(row));
}

const Choices<LossScale> kLossScale = {{"none", LossScale::none},
                                       {"fixed", LossScale::fixed},
                                       {"dynamic", LossScale::dynamic},
                                       {"apex", LossScale::apex},
                                       {"megatron", LossScale::megatron}};
const Choices<ScaleRole> kScaleRole = {
    {"owner", ScaleRole::owner}, {"member", ScaleRole::member}, {"last", ScaleRole::last}};
const Choices<OnNonfinite> kOnNonfinite = {{"skip", OnNonfinite::skip},
                                           {"propagate", OnNonfinite::propagate}};
const Choices<OnNormOverflow> kOnNormOverflow = {{"skip", OnNormOverflow::skip},
                                                 {"torch", OnNormOverflow::torch}};
const Choices<Clip> kClip = {{"none", Clip::none},   {"l2", Clip::l2},       {"l1", Clip::l1},
                             {"inf", Clip::inf},     {"value", Clip::value}, {"zclip", Clip::zclip},
                             {"adagc", Clip::adagc}, {"agc", Clip::agc}};
const Choices<Profile> kProfile = {{"standard", Profile::standard},
                                   {"torch-fused", Profile::torch_fused},
                                   {"torch-foreach", Profile::torch_foreach},
                                   {"apex", Profile::apex}};
const Choices<Master> kMaster = {{"none", Master::none},
                                 {"f32", Master::f32},
                                 {"remainder", Master::remainder},
                                 {"ecc24", Master::ecc24}};
const Choices<Orientation> kOrientation = {{"rowwise", Orientation::rowwise},
                                           {"both", Orientation::both}};
const Choices<ScaleLayout> kScaleLayout = {{"rows", ScaleLayout::rows},
                                           {"swizzled", ScaleLayout::swizzled}};
const Choices<WeightRounding> kWeightRounding = {{"nearest", WeightRounding::nearest},
                                                 {"stochastic", WeightRounding::stochastic},
                                                 {"kahan", WeightRounding::kahan}};
const Choices<UpdateClip> kUpdateClip = {
    {"none", UpdateClip::none}, {"rms", UpdateClip::rms}, {"l2", UpdateClip::l2}};
const Choices<WeightDecay> kWeightDecay = {
    {"none", WeightDecay::none}, {"l2", WeightDecay::l2}, {"decoupled", WeightDecay::decoupled}};

// Options that built-in formulas declare and that have no row of their own.
std::vector<std::string_view> other_options(const std::vector<RecipeOption>& rows) {
  std::vector<std::string_view> names;
  auto add = [&](std::string_view name) {
    bool has_row = std::any_of(rows.begin(), rows.end(), [&](auto& r) { return r.name == name; });
    if (!has_row && std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (const auto& f : formula::built_in_formulas()) {
    for (const formula::Statement* s : formula::options_of(*f)) add(s->name);
  }
  if (names.empty()) names.emplace_back("NAME");
  return names;
}

std::vector<RecipeOption> make_table() {
  std::vector<RecipeOption> table = {
      {"grad", texts_of(choices_of(kFloatStorage)), "",
       "storage type of the gradients, or several: f16,f32", set_grad, get_grad},
      flag("grad-scale", &Options::grad_scale,
           "gradients are stored with one scale per tensor; arg grad_scale_inv undoes it"),
      store_option(),
      moments_option(),
      moments_below_option(),
      alias(
          choice("master", &Options::master, kMaster, "f32",
                 "keep weights in low precision plus an f32 master copy, or a compact remainder")),
      alias(choice("model", &Options::model, choices_of(kModelTypes), "",
                   "storage type of the weights with --master or --weight-rounding [f16 for f16 "
                   "gradients, else bf16]")),
      alias(choice("copy-scale", &Options::copy_scale, copy_scales(), "delayed",
                   "scaling of 8-bit weight copies: per tensor (delayed, current), per 32 elements "
                   "(mx, mx-rceil), per 32x32 block (mxfp8, mxfp8-rceil) or per 128x128 block "
                   "(block128, block128-f32); 4-bit copies: nvfp4, nvfp4-delayed")),
      alias(choice("weight-rounding", &Options::weight_rounding, kWeightRounding, "",
                   "no master copy: store weights only in the --model type, rounded this way")),
      choice("orientation", &Options::orientation, kOrientation, "both",
             "both: also write the transpose of each weight's copy, with its scales"),
      choice("scale-layout", &Options::scale_layout, kScaleLayout, "swizzled",
             "swizzled: also write the scales of blocks in the order that cuBLASLt takes"),
      choice("loss-scale", &Options::loss_scale, kLossScale, "dynamic",
             "unscale the gradients and adapt the loss scale; apex, megatron: with hysteresis"),
      choice("scale-role", &Options::scale_role, kScaleRole, "",
             "whether this step updates a loss scale that several use: owner (alone), member (no), "
             "last (for all)"),
      flag("scale-bounds", &Options::scale_bounds,
           "keep the loss scale between args min_scale and max_scale"),
      flag("check", &Options::check, "skip the step if a gradient is inf or NaN"),
      choice("on-nonfinite", &Options::on_nonfinite, kOnNonfinite, "",
             "what happens if a gradient is inf or NaN"),
      choice(
          "clip", &Options::clip, kClip, "l2",
          "clip gradients: by global norm (l2, l1, inf), by value, by past norms (zclip, adagc), "
          "or per row by the weights (agc); the limit is an argument, as in --set max_norm=1"),
      flag("clip-per-group", &Options::clip_per_group,
           "clip each group by its own norm and max_norm"),
      choice("on-norm-overflow", &Options::on_norm_overflow, kOnNormOverflow, "",
             "finite gradients with an infinite norm: skip the step, or clip to 0 as torch does"),
      flag("skip-norm", &Options::skip_norm, "skip the step if the norm exceeds arg skip_norm"),
      flag("external-norm", &Options::external_norm,
           "use arg external_norm as the norm instead of computing it"),
      flag("all-reduce", &Options::all_reduce,
           "make norm and finite check f32 sums, so that one all-reduce over ranks covers both"),
      flag("tensor-flags", &Options::tensor_flags,
           "states choose per tensor whether it counts in the norm and whether it is updated"),
      flag("external-found-inf", &Options::external_found_inf,
           "take the flag for inf and NaN from arg external_found_inf"),
      flag("accumulated", &Options::accumulated,
           "divide the gradients by the number of micro-batches, arg accumulation"),
      flag("window", &Options::window,
           "the gradients are the f32 sums that recipe accumulate makes"),
      flag("round-grad", &Options::round_grad,
           "round gradients to their storage type after unscaling and after clipping"),
      flag("zero-grad", &Options::zero_grad, "set the gradients to zero in the same pass"),
      flag("ema", &Options::ema,
           "keep a moving average of the weights; with a torch profile, as AveragedModel does"),
      flag("monitor", &Options::monitor,
           "report the first non-finite tensor, the number of skipped steps and their streaks"),
      flag("layer-norms", &Options::layer_norms,
           "report each tensor's norms: of its gradient, its weight and the weight's change"),
      flag("check-updates", &Options::check_updates,
           "report per tensor how many updates rounding made vanish, and how many there were"),
      choice("profile", &Options::profile, kProfile, "",
             "library whose rounding order and behaviour are followed"),
      choice("weight-decay", &Options::weight_decay, kWeightDecay, "",
             "kind of weight decay, if not the optimizer's own"),
      flag("centralize", &Options::centralize,
           "subtract each row's mean from the gradient of tensors with several rows"),
      choice("update-clip", &Options::update_clip, kUpdateClip, "rms",
             "limit each tensor's update to arg max_update, by root mean square (rms) or l2 norm"),
      flag("caution", &Options::caution,
           "update only where the update agrees with the gradient, and there by more"),
      flag("maximize", &Options::maximize, "maximize the objective instead of minimizing it"),
      formula_flag("amsgrad", &Options::amsgrad,
                   "adam, adamw: divide by the largest exp_avg_sq so far"),
      formula_flag("momentum", &Options::momentum, "sgd, rmsprop: use a momentum buffer"),
      formula_flag("nesterov", &Options::nesterov,
                   "sgd with --momentum, muon_momentum: use Nesterov momentum"),
      formula_flag("centered", &Options::centered,
                   "rmsprop: subtract the squared mean gradient from the second moment"),
  };
  table.front().open = true;
  table.push_back(
      names_option("with", &Options::with, other_options(table),
                   "other options that the optimizer's formula declares, one or several: a,b"));
  table.push_back(
      names_option("per-tensor", &Options::per_tensor, {"lr", "weight_decay"},
                   "hyperparameters that get a factor per tensor, such as arg lr_scale for lr"));
  return table;
}

}  // namespace

std::span<const RecipeOption> recipe_option_table() {
  static const std::vector<RecipeOption> table = make_table();
  return table;
}

void set_option(RecipeOptions& options, std::string_view name, std::string_view value) {
  auto table = recipe_option_table();
  auto row = std::find_if(table.begin(), table.end(), [&](auto& r) { return r.name == name; });
  if (row == table.end()) {
    std::vector<std::string_view> names;
    for (const RecipeOption& r : table) names.push_back(r.name);
    throw Error(ErrorKind::usage, fmt::format("there is no recipe option '{}'; the options are {}",
                                              name, fmt::join(names, ", ")));
  }
  if (value.empty()) value = row->bare;
  bool is_flag = row->values.empty();
  // "true" and "false" are also taken by options that may stand without a value.
  if (!is_flag && !row->bare.empty() && (value == "true" || value == "false")) {
    value = value == "true" ? row->bare : row->values.front();
  }
  bool known = is_flag
                   ? value == "true" || value == "false"
                   : std::find(row->values.begin(), row->values.end(), value) != row->values.end();
  if (!known && !row->open) {
    throw Error(
        ErrorKind::usage,
        fmt::format("--{}: '{}' is not one of {}", name, value,
                    is_flag ? "true, false" : fmt::format("{}", fmt::join(row->values, ", "))));
  }
  row->set(options, value);
}

}  // namespace stepfuse
