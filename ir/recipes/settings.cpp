// Makes options definite and refuses those that contradict each other. Knows ir and fmt.
#include "ir/recipes/settings.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>

#include "ir/formats/format_text.hpp"
#include "ir/formula/built_in.hpp"
#include "ir/formula/resolve.hpp"
#include "ir/text/near_names.hpp"

namespace stepfuse::recipes {
namespace {

void require(bool ok, std::string_view message) {
  if (!ok) throw Error(ErrorKind::usage, std::string(message));
}

std::vector<std::string_view> those_with_apex() {
  std::vector<std::string_view> names;
  for (const auto& f : formula::built_in_formulas()) {
    if (formula::asks_for_profile(*f, "apex")) names.push_back(f->name);
  }
  return names;
}

void check_formula(const formula::Formula& f, const RecipeOptions& o) {
  std::vector<std::string> declared;
  for (const formula::Statement* s : formula::options_of(f)) declared.push_back(s->name);
  auto takes = [&](std::string_view option, std::string_view flag) {
    bool known = std::find(declared.begin(), declared.end(), option) != declared.end();
    require(known, fmt::format("{} has no {}{}; leave it out{}", f.name, flag, option,
                               did_you_mean(option, declared)));
  };
  for (const RecipeOption& row : recipe_option_table()) {
    if (row.of_formula && row.get(o) == "true") takes(row.name, "--");
  }
  for (const std::string& option : o.with) takes(option, "--with=");
  require(o.profile != Profile::apex || formula::asks_for_profile(f, "apex"),
          fmt::format("--profile=apex is for {}, whose formulas ask for it, and not for {}; use "
                      "standard, or write 'if profile == apex' in the formula",
                      fmt::join(those_with_apex(), ", "), f.name));
  require(!o.weight_decay || f.decay != WeightDecay::none,
          fmt::format("{} has no decay of the pipeline's; leave out --weight-decay", f.name));
}

void check_storage(const RecipeOptions& o) {
  require(!o.grad.empty(),
          fmt::format("--grad needs at least one of {}", names(kFloatStorage, ", ")));
  require((o.grad & kFloatStorage) == o.grad,
          fmt::format("gradients cannot be {}; use {}", names(o.grad, "|"),
                      names(kFloatStorage, ", ")));
  require(
      !o.grad_scale || !o.round_grad,
      "--round-grad rounds to the stored type, in which --grad-scale has other values; leave it "
      "out");
  require(!o.grad_scale || !o.window,
          "--window takes f32 sums; use --grad-scale in the step accumulate instead");
  for (const StoredMoment& m : o.moments.entries()) {
    bool is_type = dtype_from_name(m.form).has_value();
    require(!is_type || m.form == "f32" || m.form == "bf16",
            fmt::format("moments cannot be {}; use f32 or bf16", m.form));
    require(!is_type || !m.from,
            fmt::format(
                "{}@{}={} exempts small tensors from a format; leave out '@' with a storage type",
                m.moment, m.from.value_or(0), m.form));
  }
  require(o.moments_below == 0 || o.moments.has_format(),
          "--moments-below exempts small tensors from a format of --moments; add a format, as in "
          "--moments=dyn8");
  require(!o.master || !o.weight_rounding,
          "--weight-rounding is for weights without a master; leave out --master");
  require(o.master || o.weight_rounding || !o.model,
          "--model is the type of low-precision weights; add --master or --weight-rounding");
  require(!o.model || kModelTypes.contains(*o.model),
          fmt::format("--model must be one of {}", names(kModelTypes, ", ")));
}

void check_scale(const RecipeOptions& o) {
  bool scaled = o.loss_scale != LossScale::none;
  bool updated = scaled && o.loss_scale != LossScale::fixed;
  require(updated || !o.scale_bounds,
          "--scale-bounds needs a --loss-scale that changes (dynamic, apex or megatron)");
  require(updated || o.scale_role == ScaleRole::owner,
          "--scale-role is for a --loss-scale that changes (dynamic, apex or megatron)");
  require(
      !updated || o.on_nonfinite != OnNonfinite::propagate,
      "a dynamic --loss-scale must skip overflowed steps: remove --on-nonfinite=propagate, or use "
      "--loss-scale=fixed");
}

void check_clip(const Settings& s) {
  const RecipeOptions& o = s.options;
  bool clips_norm = s.clips_norm();
  require(!o.clip_per_group || clips_norm, "--clip-per-group needs --clip=l2, l1 or inf");
  require(!o.clip_per_group || !o.external_norm,
          "--external-norm is one number; leave out --clip-per-group");
  require(!o.clip_per_group || (o.clip != Clip::zclip && o.clip != Clip::adagc),
          "--clip=zclip uses one norm and --clip=adagc one per tensor; leave out --clip-per-group");
  require(!o.external_norm || clips_norm || o.skip_norm,
          "--external-norm is used by --clip and --skip-norm; add one of them");
  require(!o.all_reduce || !(o.external_norm && o.external_found_inf),
          "--all-reduce merges norm and check, which --external-norm and --external-found-inf "
          "replace: leave it out");
  require(!(o.skip_norm && o.clip_per_group),
          "--skip-norm compares one norm; leave out --clip-per-group");
  require(!o.skip_norm || o.on_nonfinite != OnNonfinite::propagate,
          "--skip-norm needs the finite check; leave out --on-nonfinite=propagate");
  require(o.on_norm_overflow != OnNormOverflow::skip || o.on_nonfinite != OnNonfinite::propagate,
          "--on-norm-overflow=skip needs the finite check; leave out --on-nonfinite=propagate");
}

void check_copy(const RecipeOptions& o, DType model) {
  if (o.copy_scale == CopyScale::none) return;
  std::string_view scale = o.copy_scale.name();
  DTypeSet types = copy_types(scale);
  if (types.empty()) {
    require(o.master == Master::f32,
            fmt::format("--copy-scale={} is for copies of f32 masters; add --master=f32", scale));
    require(!o.model,
            fmt::format("--copy-scale={} decides the type of the copies; leave out --model={}",
                        scale, name(o.model.value_or(model))));
    return;
  }
  require(o.master == Master::f32 && types.contains(model),
          fmt::format("--copy-scale needs 8-bit copies of f32 masters; add --master=f32 "
                      "--model={}",
                      name(DType::f8e4m3)));
}

// The format of the weights, or of their copies; none if they are f32, cast, or of an algorithm of their own.
std::optional<Format> weight_format_of(const RecipeOptions& o, DType model) {
  if (o.copy_scale == CopyScale::delayed) return {};
  if (o.copy_scale != CopyScale::none) {
    bool chooses = !copy_types(o.copy_scale.name()).empty();
    return built_in_format(o.copy_scale.name(), chooses ? std::optional(model) : std::nullopt);
  }
  if (o.master == Master::remainder) return built_in_format("remainder");
  if (o.master == Master::ecc24) return built_in_format("ecc24");
  if (o.weight_rounding == WeightRounding::nearest) return built_in_format("rounded", model);
  if (o.weight_rounding == WeightRounding::stochastic) {
    return built_in_format("rounded-stochastic", model);
  }
  return {};
}

}  // namespace

std::string with_member_names(std::string_view message) {
  std::string out;
  while (!message.empty()) {
    size_t at = std::min(message.find("--"), message.size());
    out += message.substr(0, at);
    message.remove_prefix(std::min(at + 2, message.size()));
    size_t length = message.find_first_not_of("abcdefghijklmnopqrstuvwxyz-");
    std::string member(message.substr(0, length));
    if (member.empty()) continue;
    std::replace(member.begin(), member.end(), '-', '_');
    message.remove_prefix(member.size());
    out += member == "store" ? member : "." + member;  // it sets several members
    if (message.starts_with("=")) {
      out += " = ";
      message.remove_prefix(1);
    }
  }
  return out;
}

void check_values(const RecipeOptions& o) {
  for (const RecipeOption& row : recipe_option_table()) {
    std::string value = row.get(o);
    bool is_one = row.open || row.values.empty() || value.empty() ||
                  std::find(row.values.begin(), row.values.end(), value) != row.values.end();
    require(is_one,
            fmt::format("--{}: the value is not one of {}", row.name, fmt::join(row.values, ", ")));
  }
}

Settings settle(const formula::Formula& formula, const RecipeOptions& given) {
  RecipeOptions o = given;
  if (o.window) {
    require(o.grad == DTypeSet(DType::f32), "--window takes f32 sums; leave out --grad");
    require(o.on_nonfinite != OnNonfinite::propagate,
            "--window skips a window with a non-finite gradient; leave out "
            "--on-nonfinite=propagate");
    o.accumulated = o.zero_grad = o.check = true;
  }
  o.caution = o.caution || formula.caution;
  check_formula(formula, o);
  check_storage(o);
  check_values(o);
  check_scale(o);
  Settings s;
  s.options = o;
  check_clip(s);
  s.model = o.model.value_or(o.grad.contains(DType::f16) ? DType::f16 : DType::bf16);
  require(
      o.master == Master::none || o.master == Master::f32 || s.model == DType::bf16,
      fmt::format("--master=remainder and --master=ecc24 need bf16 weights, but --model is {}; use "
                  "--model=bf16 or --master=f32",
                  name(s.model)));
  check_copy(o, s.model);
  s.weight_format = weight_format_of(o, s.model);
  s.norm = s.clips_norm() || o.skip_norm;
  bool peer = o.profile != Profile::standard;
  // Peers look for non-finite gradients only where a loss scaler does it for them.
  OnNonfinite by_itself =
      peer && !s.scaled() && !o.check && !o.skip_norm ? OnNonfinite::propagate : OnNonfinite::skip;
  s.skip_nonfinite = o.on_nonfinite.value_or(by_itself) == OnNonfinite::skip;
  bool implied = s.scaled() || s.norm || o.clip != Clip::none || o.external_found_inf;
  s.check = o.check || (implied && s.skip_nonfinite);
  s.skip_nonfinite = s.skip_nonfinite && s.check;
  require(!o.all_reduce || s.check || s.norm,
          "--all-reduce merges norm and check; add --clip, --check or --loss-scale");
  s.skip_overflow = s.norm && s.check &&
                    o.on_norm_overflow.value_or(peer || !s.skip_nonfinite
                                                    ? OnNormOverflow::torch
                                                    : OnNormOverflow::skip) == OnNormOverflow::skip;
  s.weight_decay = o.weight_decay.value_or(formula.decay);
  return s;
}

}  // namespace stepfuse::recipes
