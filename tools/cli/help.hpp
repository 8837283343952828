// Help texts of the tool, its verbs and its topics. Knows CLI11, the recipes' option table and the
// environment variables.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <CLI/App.hpp>
#include <CLI/Formatter.hpp>

namespace stepfuse::cli {

// -h prints the options; --help adds examples and notes. Recipe options are in neither; they have a
// topic.
std::shared_ptr<CLI::Formatter> make_help_formatter();

// A page of `stepfuse help NAME` that belongs to no verb.
struct HelpTopic {
  std::string_view name;
  std::string_view summary;
  std::string (*text)();
};
std::span<const HelpTopic> help_topics();
const HelpTopic* find_topic(std::string_view name);

// An environment variable that the library or the tool reads.
struct Variable {
  std::string_view name;
  std::string_view values;
  std::string_view meaning;
};
std::span<const Variable> environment_variables();

// "  HEAD   text", with the text wrapped at 100 columns, from column `column` on.
std::string help_entry(std::string_view head, std::string_view text, size_t column);

}  // namespace stepfuse::cli
