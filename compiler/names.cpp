// Names of the forms. Knows ir.
#include "compiler/schedule.hpp"

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

}  // namespace stepfuse
