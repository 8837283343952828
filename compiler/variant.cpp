// Makes the plan of a program's kernels. Knows the schedule and its lowering.
#include "compiler/variant.hpp"

#include "compiler/plan/lower.hpp"

namespace stepfuse {

Variant make_variant(const Program& program, const std::vector<Signature>& signatures, Form form) {
  Schedule schedule = make_schedule(program, {.form = form, .signatures = signatures});
  return {program, signatures, lower(schedule)};
}

}  // namespace stepfuse
