// RECIPE or FILE.sf on the command line. Knows CLI11, the recipes and the workload's files.
#include "tools/cli/source.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>

#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/parser.hpp>

#include "ir/text/near_names.hpp"
#include "ir/text/printable.hpp"
#include "ir/text/words.hpp"
#include "runtime/tables/tables.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

bool looks_like_file(const std::string& what) {
  std::error_code error;
  return what == "-" || what.find('/') != std::string::npos || what.ends_with(".sf") ||
         std::filesystem::exists(what, error);
}

[[noreturn]] void fail(const std::string& message) { throw Error(ErrorKind::usage, message); }

[[noreturn]] void fail_unknown(const std::string& what) {
  std::vector<std::string> names;
  for (const RecipeInfo& r : list_recipes()) names.emplace_back(r.name);
  fail(
      fmt::format("there is no recipe and no file '{}'{}\n`stepfuse list` names the recipes; an "
                  "optimizer of your own is a file, as in my.opt or my_step.sf",
                  what.substr(0, 80), did_you_mean(what, names)));
}

void bind_one(Source& source, std::string_view entry) {
  size_t equals = entry.find('=');
  if (equals == std::string_view::npos) {
    fail(fmt::format("--bind {}: write BUFFER=TYPE, as in --bind grad=bf16", entry));
  }
  std::string buffer(entry.substr(0, equals));
  auto dtype = dtype_from_name(entry.substr(equals + 1));
  int i = source.program.find_buffer(buffer);
  if (i < 0) {
    std::vector<std::string> names;
    for (const Buffer& b : source.program.buffers) names.push_back(b.name);
    fail(fmt::format("--bind {}: step @{} has no buffer @{}{}", entry, source.program.name,
                     buffer.substr(0, 80), did_you_mean(buffer, names)));
  }
  const Buffer& declared = source.program.buffers[static_cast<size_t>(i)];
  if (!dtype || !declared.dtypes.contains(*dtype)) {
    std::string types;
    for (int t = 0; t < kDTypeCount; ++t) {
      auto d = static_cast<DType>(t);
      if (declared.dtypes.contains(d)) types += fmt::format(" {}", name(d));
    }
    fail(fmt::format("--bind {}: @{} is declared as{}{}", entry, buffer, types,
                     buffer == "grad" ? " (a recipe takes --grad)" : ""));
  }
  source.bindings[buffer] = *dtype;
}

void bind_all(Source& source, const std::vector<std::string>& entries) {
  for (std::string_view list : entries) {
    for (std::string_view entry : split(list, ",")) bind_one(source, entry);
  }
}

// The storage types for which kernels are needed, of one buffer.
std::vector<DType> types_of(const Buffer& buffer, const Bindings& bindings) {
  auto bound = bindings.find(buffer.name);
  if (bound != bindings.end()) return {bound->second};
  std::vector<DType> types;
  for (int t = 0; t < kDTypeCount; ++t) {
    auto d = static_cast<DType>(t);
    if (buffer.dtypes.contains(d)) types.push_back(d);
  }
  return types;
}

}  // namespace

void add_source(CLI::App& verb, SourceArguments& a, bool layout) {
  verb.add_option("source", a.what,
                  "A recipe (see `stepfuse list`), a formula (.opt) or a step (.sf)")
      ->required()
      ->type_name("RECIPE|FILE.opt|FILE.sf");
  verb.add_option("--bind", a.bind,
                  "Storage types for buffers that allow several, as in grad=bf16,weight=f16")
      ->type_name("BUFFER=TYPE,…");
  if (layout) {
    CLI::Option* file =
        verb.add_option("--layout", a.layout_file,
                        "Parameter tensors from a layout file (samples/layouts) or a checkpoint")
            ->type_name("FILE.json|FILE.safetensors");
    verb.add_option("--params", a.params, "One vector or matrix of N parameters: 16M, 1e9")
        ->type_name("N")
        ->excludes(file);
  }
  add_recipe_flags(verb, a.recipe);
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  auto check = [words](std::string& word) -> std::string {
    if (std::find(words.begin(), words.end(), word) != words.end()) return "";
    return fmt::format("'{}' is not one of {}{}", word, fmt::join(words, ", "),
                       did_you_mean(word, words));
  };
  return CLI::Validator(check, "");
}

template <class Number>
CLI::Validator in_range(Number low, Number high) {
  auto read = [low, high](std::string& text) -> std::string {
    auto value = parse_number<Number>(text);
    if (value && *value >= low && *value <= high) {
      text = fmt::format("{}", *value);
      return "";
    }
    return fmt::format("expected a {}number from {} to {}; got '{}'",
                       std::is_integral_v<Number> ? "whole " : "", low, high, text);
  };
  return CLI::Validator(read, "");
}
template CLI::Validator in_range(int low, int high);
template CLI::Validator in_range(uint64_t low, uint64_t high);
template CLI::Validator in_range(double low, double high);

void add_form(CLI::App& verb, std::string& form) {
  verb.add_option("--form", form,
                  "How the step is split into kernels; results are bit-identical [fused]")
      ->type_name("fused|split|unfused")
      ->check(one_of({"fused", "split", "unfused"}));
}

Source load_source(const SourceArguments& a) {
  Source source;
  bool is_formula = a.what.ends_with(".opt");
  if (is_formula || is_recipe(a.what)) {
    RecipeOptions options = recipe_options(a.recipe);
    source.program = is_formula ? make_recipe(parse_optimizer(read_text_file(a.what), a.what),
                                              options, OptionNames::flags)
                                : make_recipe(a.what, options, OptionNames::flags);
    std::string flags = describe(options);
    source.title = printable(a.what);
    if (!flags.empty()) source.title += " " + flags;
  } else {
    if (!looks_like_file(a.what)) fail_unknown(a.what);
    if (!a.recipe.empty()) {
      fail(
          fmt::format("--{} applies to recipes and formulas (FILE.opt); the text of {} already "
                      "says what it does",
                      a.recipe.begin()->first, a.what));
    }
    source.program = parse(read_text_file(a.what), a.what);
    source.title = printable(a.what);
  }
  bind_all(source, a.bind);
  return source;
}

LayoutFile load_layout(const SourceArguments& a, const Program& program, uint64_t default_params) {
  if (!a.layout_file.empty()) return read_layout_file(a.layout_file);
  uint64_t params = a.params.empty() ? default_params : parse_count(a.params, "--params");
  if (arranges(program)) return single_matrix(params);
  std::vector<Granularity> all = granularities_of(program);
  bool has_rows = std::any_of(all.begin(), all.end(),
                              [](Granularity g) { return g == per::row || g == per::column; });
  return has_rows ? squarest_matrix(params) : single_tensor(params);
}

std::vector<Signature> signatures_of(const Source& source, const SourceArguments& a) {
  if (!a.layout_file.empty()) {
    Layout layout = make_layout(read_layout_file(a.layout_file), source.program, source.bindings);
    return make_tables(source.program, layout).signatures;
  }
  std::vector<Signature> all = {{}};
  for (const Buffer& b : source.program.buffers) {
    std::vector<Signature> next;
    for (const Signature& s : all) {
      for (DType t : types_of(b, source.bindings)) {
        next.push_back(s);
        next.back().push_back(t);
      }
    }
    all = std::move(next);
    if (all.size() > kMaxSignatures) {
      fail(
          fmt::format("the buffers of step @{} have more than {} combinations of storage types; "
                      "--bind some of them (as in --bind {}={})",
                      source.program.name, kMaxSignatures, b.name, name(b.dtypes.first())));
    }
  }
  std::vector<Signature> of_sizes;
  for (uint64_t elements : tensor_classes(source.program)) {
    for (const Signature& s : all) of_sizes.push_back(of_size(source.program, elements, s));
  }
  return of_sizes;
}

uint64_t parse_count(const std::string& text, std::string_view what) {
  double value = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view suffix(rest, static_cast<size_t>(text.data() + text.size() - rest));
  if (suffix == "k" || suffix == "K") value *= 1e3;
  if (suffix == "M") value *= 1e6;
  if (suffix == "G" || suffix == "B") value *= 1e9;
  bool known = suffix.empty() || (suffix.size() == 1 && std::string_view("kKMGB").find(suffix[0]) !=
                                                            std::string_view::npos);
  if (error != std::errc{} || !known || value < 0 || value > 0x1p44 ||
      std::nearbyint(value) != value) {
    fail(fmt::format("{} {}: write a number of parameters, as in 124439808, 16M or 1e9", what,
                     text));
  }
  return static_cast<uint64_t>(value);
}

}  // namespace stepfuse::cli
