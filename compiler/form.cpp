// Converts between forms and their names. Knows ir errors only.
#include <stepfuse/error.hpp>
#include <stepfuse/form.hpp>

namespace stepfuse {

std::string_view name(Form form) {
  switch (form) {
    case Form::fused:
      return "fused";
    case Form::split:
      return "split";
    case Form::unfused:
      return "unfused";
  }
  internal_error("bad Form");
}

std::optional<Form> form_from_name(std::string_view text) {
  for (Form f : {Form::fused, Form::split, Form::unfused}) {
    if (name(f) == text) return f;
  }
  return std::nullopt;
}

}  // namespace stepfuse
