// `stepfuse man`: manual pages, generated from the verbs' options. Knows CLI11 and the help.
#include <algorithm>
#include <memory>

#include <CLI/Option.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stepfuse/recipes.hpp>

#include "tools/cli/help.hpp"
#include "tools/cli/recipe_flags.hpp"
#include "tools/cli/verbs.hpp"
#include "tools/workload/text_file.hpp"

namespace stepfuse::cli {
namespace {

constexpr std::string_view kManFooter = R"(Examples:
  stepfuse man -o man1 && man man1/stepfuse-dump.1

`cmake --install` installs the pages; then `man stepfuse-dump` shows one.)";

// The code point of the UTF-8 sequence of two or three bytes at `at`.
unsigned code_point(std::string_view text, size_t at) {
  auto byte = [&](size_t i) {
    return static_cast<unsigned>(static_cast<unsigned char>(text[at + i]));
  };
  bool is_long = byte(0) >= 0xE0U;
  return is_long ? (byte(0) & 0xFU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU)
                 : (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
}

// Escapes text as ASCII that troff cannot take for requests.
std::string escaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool at_start = i == 0 || text[i - 1] == '\n';
    if (at_start && (text[i] == '.' || text[i] == '\'')) out += "\\&";
    if (text[i] == '\\') {
      out += "\\e";
    } else if (text[i] == '-') {
      out += "\\-";
    } else if (static_cast<unsigned char>(text[i]) >= 0xC0U) {
      out += fmt::format("\\[u{:04X}]", code_point(text, i));
      i += static_cast<unsigned char>(text[i]) >= 0xE0U ? 2 : 1;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

std::string begin_page(const std::string& name, int section, std::string_view summary) {
  return fmt::format(".TH {} {} \"\" \"stepfuse {}\" \"stepfuse\"\n.SH NAME\n{} \\- {}\n",
                     upper(name), section, STEPFUSE_VERSION, escaped(name), escaped(summary));
}

std::string entry(std::string_view head, std::string_view text) {
  return fmt::format(".TP\n\\fB{}\\fR\n{}\n", escaped(head), escaped(text));
}

std::string literal(std::string_view text) { return fmt::format(".nf\n{}\n.fi\n", escaped(text)); }

std::string options_section(const CLI::App& app) {
  std::string out = ".SH OPTIONS\n";
  for (const CLI::Option* o : app.get_options()) {
    if (o->get_group().empty()) continue;
    std::vector<std::string> names;
    for (const std::string& n : o->get_snames()) names.push_back("-" + n);
    for (const std::string& n : o->get_lnames()) names.push_back("--" + n);
    std::string head =
        o->get_positional() ? o->get_name(true, false) : fmt::format("{}", fmt::join(names, ", "));
    std::string type = o->get_type_size() != 0 ? o->get_type_name() : "";
    out += entry(head + (type.empty() ? "" : " " + type), o->get_description());
  }
  if (app.get_option_no_throw("--clip") != nullptr) {
    out += ".PP\nRecipe options:\n.BR stepfuse\\-recipe\\-options (7).\n";
  }
  return out;
}

// A footer's paragraphs: "Examples:" and "Start here:" become sections, the rest is text.
std::string footer_sections(std::string_view footer) {
  std::string out;
  bool in_notes = false;
  while (!footer.empty()) {
    size_t end = std::min(footer.find("\n\n"), footer.size());
    std::string_view part = footer.substr(0, end);
    footer.remove_prefix(std::min(end + 2, footer.size()));
    size_t line = part.find(":\n  ");
    if (line != std::string_view::npos && part.find('\n') == line + 1) {
      out += fmt::format(
          ".SH {}\n{}",
          part.starts_with("Examples") ? "EXAMPLES" : upper(std::string(part.substr(0, line))),
          literal(part.substr(line + 2)));
    } else {
      out += in_notes ? ".PP\n" : ".SH NOTES\n";
      out += escaped(part) + "\n";
      in_notes = true;
    }
  }
  return out;
}

std::string verb_page(const CLI::App& verb) {
  std::string out = begin_page("stepfuse-" + verb.get_name(), 1, verb.get_description());
  out += fmt::format(".SH SYNOPSIS\n.B stepfuse {}\n[OPTIONS]", escaped(verb.get_name()));
  for (const CLI::Option* o : verb.get_options()) {
    if (!o->get_positional()) continue;
    std::string name = o->get_name(true, false);
    out += fmt::format(fmt::runtime(o->get_required() ? " {}" : " [{}]"), escaped(name));
  }
  out += "\n" + options_section(verb) + footer_sections(verb.get_footer());
  return out + ".SH SEE ALSO\n.BR stepfuse (1)\n";
}

std::string tool_page(const CLI::App& app) {
  std::string out = begin_page("stepfuse", 1, app.get_description());
  out += ".SH SYNOPSIS\n.B stepfuse\nVERB [OPTIONS]\n" + options_section(app) + ".SH VERBS\n";
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (!verb->get_group().empty()) out += entry(verb->get_name(), verb->get_description());
  }
  out += footer_sections(app.get_footer()) + ".SH SEE ALSO\n";
  for (const HelpTopic& t : help_topics()) {
    out += fmt::format(".BR stepfuse\\-{} (7)\n", escaped(t.name));
  }
  return out;
}

std::string topic_page(const HelpTopic& topic) {
  std::string text = topic.text();
  return begin_page("stepfuse-" + std::string(topic.name), 7, topic.summary) + ".SH DESCRIPTION\n" +
         literal(text.substr(text.find("\n\n") + 2)) + ".SH SEE ALSO\n.BR stepfuse (1)\n";
}

int write_pages(const CLI::App& app, const std::string& folder) {
  write_file(folder + "/stepfuse.1", tool_page(app));
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_group().empty()) continue;
    write_file(fmt::format("{}/stepfuse-{}.1", folder, verb->get_name()), verb_page(*verb));
  }
  for (const HelpTopic& t : help_topics()) {
    write_file(fmt::format("{}/stepfuse-{}.7", folder, t.name), topic_page(t));
  }
  return kOk;
}

}  // namespace

void add_man(CLI::App& app, Action& action) {
  CLI::App* verb = app.add_subcommand("man", "Write manual pages of all verbs");
  verb->footer(std::string(kManFooter));
  auto folder = std::make_shared<std::string>();
  verb->add_option("-o,--output", *folder, "Folder for the pages, which must exist")
      ->required()
      ->type_name("DIR");
  verb->callback(
      [&app, &action, folder] { action = [&app, folder] { return write_pages(app, *folder); }; });
}

}  // namespace stepfuse::cli
