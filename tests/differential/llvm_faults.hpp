// Faults that an LLVM emitter could have, each as an edit of correct text. Knows the shape of the
// emitted text.
#pragma once

#include <string>
#include <vector>

#include <stepfuse/form.hpp>

#include "tests/differential/text_edit.hpp"

namespace stepfuse::testing {

struct PlantedFault {
  std::string name;
  TextEdit edit;
  Form form = Form::fused;
};
std::vector<PlantedFault> llvm_faults();

}  // namespace stepfuse::testing
