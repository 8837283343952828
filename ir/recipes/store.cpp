// How buffers are stored: option --store, and the value of RecipeOptions::moments. Knows ir and fmt.
#include "ir/recipes/store.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/error.hpp>
#include <stepfuse/format.hpp>

#include "ir/formats/format_text.hpp"
#include "ir/text/words.hpp"

namespace stepfuse {
namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 44;

[[noreturn]] void refuse(std::string_view entry, std::string_view rule) {
  throw Error(ErrorKind::usage, fmt::format("--store: '{}': {}", entry.substr(0, 80), rule));
}

// "exp_avg@4096=fp8" without what is behind '='.
struct Target {
  std::string_view buffer;
  std::optional<uint64_t> from;
};

Target target_of(std::string_view text, std::string_view entry) {
  size_t at = text.find('@');
  if (at == std::string_view::npos) return {text, {}};
  auto from = parse_number<uint64_t>(text.substr(at + 1));
  if (!from || *from > kMostElements) {
    refuse(entry,
           "behind '@' goes the number of elements of the smallest tensor, as in exp_avg@4096=fp8");
  }
  return {text.substr(0, at), from};
}

// The form's canonical name. Throws for an unknown form.
std::string name_of(std::string_view form) {
  return form == "f32" || form == "bf16" ? std::string(form) : built_in_format(form).name;
}

template <class T>
std::optional<T> value_of(std::string_view word,
                          std::initializer_list<std::pair<std::string_view, T>> choices) {
  for (const auto& [text, value] : choices) {
    if (text == word) return value;
  }
  return {};
}

// Returns the scale of that name. It has the list's own text, because the caller's may end earlier.
std::optional<CopyScale> find_scale(std::string_view name) {
  for (std::string_view known : list_copy_formats()) {
    if (known == name) return CopyScale(known);
  }
  return {};
}

// "mxfp8": scaled copies of f32 masters, in the format's first type.
bool set_copies(RecipeOptions& o, std::string_view form) {
  std::optional<CopyScale> scale = find_scale(form);
  if (!scale) return false;
  o.copy_scale = *scale;
  o.master = Master::f32;
  if (!copy_types(form).empty()) o.model = DType::f8e4m3;
  return true;
}

// "bf16", "bf16:stochastic", "bf16+ecc24", "f8e4m3:mx", "nvfp4".
void set_weight(RecipeOptions& o, std::string_view form, std::string_view entry) {
  size_t colon = std::min(form.find(':'), form.size());
  std::string_view rule = form.substr(std::min(colon + 1, form.size()));
  std::string_view stored = form.substr(0, colon);
  size_t plus = std::min(stored.find('+'), stored.size());
  std::string_view rest = stored.substr(std::min(plus + 1, stored.size()));
  std::optional<DType> type = dtype_from_name(stored.substr(0, plus));
  o.master = Master::none;
  o.model = {};
  o.weight_rounding = {};
  o.copy_scale = CopyScale::none;
  if (form == "f32" || set_copies(o, form)) return;
  if (!type || !kModelTypes.contains(*type)) {
    refuse(entry,
           fmt::format("expected f32, a type ({}), a type with a master, as in bf16+ecc24, or "
                       "scaled copies, as in mxfp8",
                       names(kModelTypes, ", ")));
  }
  o.model = type;
  auto master = value_of<Master::Kind>(
      rest, {{"f32", Master::f32}, {"remainder", Master::remainder}, {"ecc24", Master::ecc24}});
  if (!rest.empty() && !master) {
    refuse(entry, "the missing bits of weights are stored as f32, remainder or ecc24");
  }
  if (master) o.master = *master;
  using enum WeightRounding;
  auto rounding = value_of<WeightRounding>(
      rule, {{"", nearest}, {"nearest", nearest}, {"stochastic", stochastic}, {"kahan", kahan}});
  if (rounding && (!master || !rule.empty())) o.weight_rounding = rounding;
  if (rounding) return;
  std::optional<CopyScale> scale = find_scale(rule);
  if (!scale) {
    refuse(entry,
           fmt::format(
               "behind ':' goes nearest, stochastic or kahan, or the scale of 8-bit copies: {}",
               fmt::join(list_copy_formats(), ", ")));
  }
  o.copy_scale = *scale;
  if (!master) o.master = Master::f32;
}

}  // namespace

Moments::Moments(DType type) { entries_.push_back({"", std::string(name(type)), {}}); }

Moments::Moments(std::string_view text) {
  for (std::string_view entry : split(text, "|,")) {
    size_t equals = entry.find('=');
    bool all = equals == std::string_view::npos;
    Target target = target_of(all ? "" : entry.substr(0, equals), entry);
    std::string form(all ? entry : entry.substr(equals + 1));
    set({std::string(target.buffer), form, target.from});
  }
}

void Moments::set(StoredMoment entry) {
  entry.form = name_of(entry.form);
  std::erase_if(entries_, [&](const StoredMoment& e) { return e.moment == entry.moment; });
  entries_.push_back(std::move(entry));
}

const StoredMoment* Moments::find(std::string_view moment) const {
  const StoredMoment* found = nullptr;
  for (const StoredMoment& e : entries_) {
    if (e.moment == moment) return &e;
    if (e.moment.empty()) found = &e;
  }
  return found;
}

bool Moments::has_format() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const StoredMoment& e) { return !dtype_from_name(e.form); });
}

std::string Moments::text() const {
  std::vector<std::string> entries;
  for (const StoredMoment& e : entries_) {
    std::string from = e.from ? fmt::format("@{}", *e.from) : "";
    bool all = e.moment.empty() && from.empty();
    entries.push_back(all ? e.form : fmt::format("{}{}={}", e.moment, from, e.form));
  }
  return entries.empty() ? "f32" : fmt::format("{}", fmt::join(entries, ","));
}

namespace recipes {

void set_store(RecipeOptions& options, std::string_view text) {
  for (std::string_view entry : split(text, "|,")) {
    size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      refuse(entry, "write BUFFER=FORM, as in exp_avg=fp8 or weight=bf16+ecc24");
    }
    Target target = target_of(entry.substr(0, equals), entry);
    std::string_view form = entry.substr(equals + 1);
    if (target.buffer == "grad" || target.buffer == "master") {
      refuse(entry, target.buffer == "grad"
                        ? "gradients are the caller's; their storage types are option --grad"
                        : "masters belong to their weights, as in weight=bf16+f32");
    }
    if (target.buffer == "weight") {
      if (target.from) refuse(entry, "weights of all sizes are stored alike; leave out '@'");
      set_weight(options, form, entry);
      continue;
    }
    std::string moment(target.buffer == "moments" ? "" : target.buffer);
    options.moments.set({moment, std::string(form), target.from, "store"});
  }
}

}  // namespace recipes
}  // namespace stepfuse
