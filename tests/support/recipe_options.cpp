// Points of the space of recipe options. Knows the recipes and fmt.
#include "tests/support/recipe_options.hpp"

#include <fmt/format.h>

#include <stepfuse/ir.hpp>

namespace stepfuse::testing {

std::vector<Factor> recipe_option_factors() {
  std::vector<Factor> factors;
  Factor recipe{.name = "recipe", .values = {"adamw"}};
  for (const RecipeInfo& info : list_recipes()) {
    if (info.name != "adamw") recipe.values.emplace_back(info.name);
  }
  factors.push_back(std::move(recipe));
  for (const RecipeOption& option : recipe_option_table()) {
    if (option.name == "store") continue;  // its aliases set the same
    Factor f{.name = std::string(option.name), .values = {}};
    if (option.values == std::vector<std::string_view>{"NAME"}) {
      f.values = {""};  // stands for options that no built-in formula has
    } else if (option.name == "grad") {
      f.values = {"f32"};
      for (DType t : kModelTypes) f.values.emplace_back(name(t));
      f.values.push_back(names(kFloatStorage, "|"));
    } else if (option.values.empty()) {
      f.values = {"", "true"};
    } else {
      f.values = {""};
      f.values.insert(f.values.end(), option.values.begin(), option.values.end());
    }
    factors.push_back(std::move(f));
  }
  return factors;
}

Point point_of(const std::vector<Factor>& factors, const Row& row) {
  Point point;
  for (size_t f = 0; f < factors.size(); ++f)
    point[factors[f].name] = factors[f].values[static_cast<size_t>(row[f])];
  return point;
}

std::string describe(const Point& point) {
  std::string out;
  for (const auto& [name, value] : point) {
    if (!value.empty()) out += fmt::format("{}{}={}", out.empty() ? "" : " ", name, value);
  }
  return out;
}

Program program_of(const Point& point) {
  RecipeOptions options;
  for (const RecipeOption& option : recipe_option_table()) {
    if (option.name == "store") continue;
    const std::string& value = point.at(std::string(option.name));
    if (!value.empty()) set_option(options, option.name, value);
  }
  return make_recipe(point.at("recipe"), options);
}

std::vector<std::string> words_of(const Point& point) {
  std::vector<std::string> words = {point.at("recipe")};
  for (const RecipeOption& option : recipe_option_table()) {
    if (option.name == "store") continue;
    const std::string& value = point.at(std::string(option.name));
    if (value.empty()) continue;
    std::string name = fmt::format("--{}", option.name);
    words.push_back(option.values.empty() ? name : fmt::format("{}={}", name, value));
  }
  return words;
}

}  // namespace stepfuse::testing
