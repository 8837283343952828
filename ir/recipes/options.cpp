// The table of recipe options. Knows ir and fmt.
#include <algorithm>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>
#include <stepfuse/format.hpp>
#include <stepfuse/recipe_options.hpp>

#include "ir/formula/built_in.hpp"
#include "ir/formula/resolve.hpp"
#include "ir/recipes/moment_forms.hpp"

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
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of("|,"), text.size());
    std::optional<DType> t = dtype_from_name(text.substr(0, end));
    if (!t || !kFloatStorage.contains(*t)) {
      throw Error(ErrorKind::usage, fmt::format("--grad: '{}' is not one of {} (several: f16|f32)",
                                                text.substr(0, end), names(kFloatStorage, ", ")));
    }
    set = set | *t;
    text.remove_prefix(std::min(end + 1, text.size()));
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
        while (!text.empty()) {
          size_t end = std::min(text.find_first_of("|,"), text.size());
          std::string word(text.substr(0, end));
          bool known = std::find(list.begin(), list.end(), word) != list.end();
          if (!word.empty() && !known) list.push_back(std::move(word));
          text.remove_prefix(std::min(end + 1, text.size()));
        }
      },
      [member](const Options& o) { return fmt::format("{}", fmt::join(o.*member, "|")); }};
  row.open = true;
  return row;
}

void set_moments(Options& o, std::string_view text) {
  o.moments = text == "bf16" ? DType::bf16 : DType::f32;
  o.moments_format = text == "f32" || text == "bf16" ? "" : text;
  for (const auto& [moment, form] : recipes::moment_forms(o.moments_format)) {
    if (form != "f32" || moment.empty()) built_in_format(form);  // which says what there is
  }
}

// A storage type, or a format, or several: exp_avg=int8|exp_avg_sq=sqrt8.
RecipeOption moments_option() {
  std::vector<std::string_view> values = {"f32", "bf16"};
  for (std::string_view name : list_formats()) values.push_back(name);
  RecipeOption row = {
      "moments",
      std::move(values),
      "",
      "storage type or format of the moments; of some: exp_avg=int8|exp_avg_sq=sqrt8",
      set_moments,
      [](const Options& o) {
        return o.moments_format.empty() ? std::string(stepfuse::name(o.moments)) : o.moments_format;
      }};
  row.open = true;
  return row;
}

RecipeOption moments_below_option() {
  RecipeOption row = {
      "moments-below",
      {"4096"},
      "",
      "with a format of --moments: tensors of fewer elements keep theirs in f32",
      [](Options& o, std::string_view text) {
        auto [end, error] =
            std::from_chars(text.data(), text.data() + text.size(), o.moments_below);
        if (error == std::errc() && end == text.data() + text.size() &&
            o.moments_below <= kMostElements) {
          return;
        }
        throw Error(ErrorKind::usage,
                    fmt::format("--moments-below: '{}' is no count of elements, as 4096 is",
                                text.substr(0, 40)));
      },
      [](const Options& o) { return o.moments_below == 0 ? "" : std::to_string(o.moments_below); }};
  row.open = true;
  return row;
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
const Choices<CopyScale> kCopyScale = {{"none", CopyScale::none},
                                       {"delayed", CopyScale::delayed},
                                       {"current", CopyScale::current},
                                       {"mx", CopyScale::mx},
                                       {"mx-rceil", CopyScale::mx_rceil},
                                       {"block128", CopyScale::block128},
                                       {"block128-f32", CopyScale::block128_f32}};
const Choices<WeightRounding> kWeightRounding = {{"nearest", WeightRounding::nearest},
                                                 {"stochastic", WeightRounding::stochastic},
                                                 {"kahan", WeightRounding::kahan}};
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
       "storage type of the gradients, or several: f16|f32", set_grad, get_grad},
      flag("grad-scale", &Options::grad_scale,
           "stored gradients have a scale for each tensor, undone by arg grad_scale_inv"),
      moments_option(),
      moments_below_option(),
      choice(
          "master", &Options::master, kMaster, "f32",
          "weights are kept below f32, and what they lack of it in f32 masters, or in fewer bits"),
      choice("model", &Options::model, choices_of(kLowPrecision), "",
             "storage type of weights with --master or --weight-rounding"),
      choice(
          "copy-scale", &Options::copy_scale, kCopyScale, "delayed",
          "8-bit copies are stored times a scale: for each tensor, from its largest weights so "
          "far or now; mx: a power of two for 32 elements, -rceil: rounded up; block128: one for "
          "128x128, -f32: any scale"),
      choice("weight-rounding", &Options::weight_rounding, kWeightRounding, "",
             "weights are kept in the type --model alone, without a master, and rounded so"),
      choice("loss-scale", &Options::loss_scale, kLossScale, "dynamic",
             "unscale the gradients and adapt the scale; apex and megatron: with hysteresis"),
      choice("scale-role", &Options::scale_role, kScaleRole, "",
             "who updates a scale that several steps read"),
      flag("scale-bounds", &Options::scale_bounds, "keep the scale in args min_scale … max_scale"),
      flag("check", &Options::check, "look for non-finite gradients and skip such a step"),
      choice("on-nonfinite", &Options::on_nonfinite, kOnNonfinite, "",
             "what a non-finite gradient does to the step"),
      choice("clip", &Options::clip, kClip, "l2",
             "clip gradients by a global norm, by value, by what their norms used to be, or rows "
             "by their "
             "weights"),
      flag("clip-per-group", &Options::clip_per_group, "a norm and a max_norm for each group"),
      choice("on-norm-overflow", &Options::on_norm_overflow, kOnNormOverflow, "",
             "finite gradients, infinite norm: skip the step, or torch's coefficient 0"),
      flag("skip-norm", &Options::skip_norm, "skip a step whose norm exceeds arg skip_norm"),
      flag("external-norm", &Options::external_norm, "take the norm from arg external_norm"),
      flag("all-reduce", &Options::all_reduce,
           "norm and finite check are f32 sums, for one all-reduce over ranks between the phases"),
      flag("tensor-flags", &Options::tensor_flags,
           "states say of each tensor whether it counts in the norm and whether it is updated"),
      flag("external-found-inf", &Options::external_found_inf,
           "take found_inf from arg external_found_inf"),
      flag("accumulated", &Options::accumulated, "divide the gradients by arg accumulation"),
      flag("window", &Options::window, "the gradients are the sums of recipe accumulate"),
      flag("round-grad", &Options::round_grad,
           "round to the gradient's storage type after unscale and after clip; the norm stays f32"),
      flag("zero-grad", &Options::zero_grad, "zero the gradients in the same pass"),
      flag("ema", &Options::ema,
           "exponential moving average of the weights; with torch profiles as AveragedModel's"),
      flag("monitor", &Options::monitor,
           "report the first non-finite tensor, skipped steps and streaks of them"),
      choice("profile", &Options::profile, kProfile, "", "whose rounding order and behaviour"),
      choice("weight-decay", &Options::weight_decay, kWeightDecay, "",
             "kind of weight decay, where not the optimizer's own"),
      flag("maximize", &Options::maximize, "ascend"),
      formula_flag("amsgrad", &Options::amsgrad,
                   "adam, adamw: divide by the maximum of exp_avg_sq"),
      formula_flag("momentum", &Options::momentum, "sgd, rmsprop: with a momentum buffer"),
      formula_flag("nesterov", &Options::nesterov,
                   "sgd (with --momentum), muon_momentum: Nesterov momentum"),
      formula_flag("centered", &Options::centered,
                   "rmsprop: subtract the squared mean of the gradients"),
  };
  table.front().open = true;
  table.push_back(names_option("with", &Options::with, other_options(table),
                               "other options that an optimizer's formula declares, several: a|b"));
  table.push_back(names_option("per-tensor", &Options::per_tensor, {"lr", "weight_decay"},
                               "hyperparameters with a scale for each tensor, as arg lr_scale"));
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
    throw Error(ErrorKind::usage, fmt::format("there is no recipe option '{}'; there are {}", name,
                                              fmt::join(names, ", ")));
  }
  if (value.empty()) value = row->bare;
  bool is_flag = row->values.empty();
  // Also of what may stand alone, which some were flags once.
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
