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

// What the user wrote.
struct SourceArguments {
  std::string what;  // recipe or file
  RecipeValues recipe;
  std::vector<std::string> bind;  // "grad=bf16,weight=f16"
  std::string layout_file;
  std::string params;  // "124M"
};

// The positional argument, --bind and the recipe options; with `layout` also --layout and --params.
void add_source(CLI::App& verb, SourceArguments& arguments, bool layout);

// One of these words; help shows them as the option's type already.
CLI::Validator one_of(const std::vector<std::string>& words);
// A number from `low` to `high`; int or double.
template <class Number>
CLI::Validator in_range(Number low, Number high);
// --form.
void add_form(CLI::App& verb, std::string& form);

struct Source {
  std::string title;  // "adamw --clip=l2", or the file's name
  Program program;
  Bindings bindings;
};

// Throws Error{usage} for an unknown recipe (naming near ones) or a recipe option given with a file,
// Error{parse|verify} with file:line:col and a caret for faults in a file.
Source load_source(const SourceArguments& arguments);

// --layout, or one tensor of --params elements (`default_params` where neither is given).
LayoutFile load_layout(const SourceArguments& arguments, uint64_t default_params);

// The storage types that kernels are made for: those of the layout if there is one, else every
// combination of what is not bound. Throws Error{usage} for more than `kMaxSignatures`.
inline constexpr size_t kMaxSignatures = 4;
std::vector<Signature> signatures_of(const Source& source, const SourceArguments& arguments);

// "16M", "1e9", "124439808": throws Error{usage}.
uint64_t parse_count(const std::string& text, std::string_view what);

}  // namespace stepfuse::cli
