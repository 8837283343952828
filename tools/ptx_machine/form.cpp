// Matches the modifiers of an opcode against a pattern; knows types, no opcodes.
#include "tools/ptx_machine/form.hpp"

#include <algorithm>

namespace ptx {
namespace {

std::string_view cut(std::string_view& text, char separator) {
  std::size_t end = text.find(separator);
  std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
  return part;
}

bool listed(std::string_view alternatives, std::string_view modifier) {
  while (!alternatives.empty()) {
    if (cut(alternatives, '|') == modifier) return true;
  }
  return false;
}

}  // namespace

bool Form::has(std::string_view modifier) const {
  return std::find(chosen.begin(), chosen.end(), modifier) != chosen.end();
}

std::optional<Form> match_form(std::string_view pattern, std::string_view modifiers) {
  Form form;
  std::size_t group = 0;
  std::string_view rest = modifiers;
  while (!pattern.empty()) {
    std::string_view alternatives = cut(pattern, ' ');
    bool optional = alternatives.ends_with('?');
    if (optional) alternatives.remove_suffix(1);
    std::string_view after = rest;
    std::string_view modifier = cut(after, '.');
    if (!modifier.empty() && listed(alternatives, modifier)) {
      form.chosen[group] = modifier;
      if (auto type = type_named(modifier)) {
        form.type = *type;
        if (form.first == Type::none) form.first = *type;
      }
      rest = after;
    } else if (!optional) {
      return std::nullopt;
    }
    ++group;
  }
  if (!rest.empty()) return std::nullopt;
  return form;
}

}  // namespace ptx
