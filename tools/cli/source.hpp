// RECIPE or FILE.sf on the command line, as a program with its storage types and layout. Knows CLI11,
// the recipes and the workload's files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Validators.hpp>

#include "compiler/signature.hpp"
#include "tools/cli/recipe_flags.hpp"
#include "tools/workload/layout_file.hpp"

namespace stepfuse::cli {

// The source arguments as the user wrote them.
struct SourceArguments {
  std::string what;  // a recipe's name or a file
  RecipeValues recipe;
  std::vector<std::string> bind;  // "grad=bf16,weight=f16"
  std::string layout_file;
  std::string params;  // "124M"
};

// Adds the positional argument, --bind and the recipe options; if `layout`, also --layout and
// --params.
void add_source(CLI::App& verb, SourceArguments& arguments, bool layout);

// Accepts one of these words. The help already shows them as the option's type.
CLI::Validator one_of(const std::vector<std::string>& words);
// Accepts a decimal number from `low` to `high`: int, uint64_t or double. Pass it to transform(), which hands CLI11 the
// number that was read. CLI11 itself reads 010 as 8, and numbers above 2^64 as the largest one.
template <class Number>
CLI::Validator in_range(Number low, Number high);
// Adds --form.
void add_form(CLI::App& verb, std::string& form);

struct Source {
  std::string title;  // "adamw --clip=l2", or the file's name
  Program program;
  Bindings bindings;
};

// Throws Error{usage} for an unknown recipe, with similar names, and for a recipe option given with
// a file. Throws Error{parse|verify} with file:line:col and a caret for faults in a file.
Source load_source(const SourceArguments& arguments);

// Loads --layout, or makes one tensor of --params elements (by default `default_params`).
LayoutFile load_layout(const SourceArguments& arguments, const Program& program,
                       uint64_t default_params);

// The storage types to compile for: the layout's if there is one, otherwise every combination of
// the unbound buffers. Throws Error{usage} for more than `kMaxSignatures`.
inline constexpr size_t kMaxSignatures = 4;
std::vector<Signature> signatures_of(const Source& source, const SourceArguments& arguments);

// Parses "16M", "1e9" or "124439808"; throws Error{usage}.
uint64_t parse_count(const std::string& text, std::string_view what);

}  // namespace stepfuse::cli
