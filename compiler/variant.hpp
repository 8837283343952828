// A step in one form, for certain storage types. Kernels are compiled from it and identified by it. Knows
// ir and the plan.
#pragma once

#include <vector>

#include <stepfuse/program.hpp>

#include "compiler/plan/plan.hpp"
#include "compiler/signature.hpp"

namespace stepfuse {

struct Variant {
  Program program;
  std::vector<Signature> signatures;
  KernelPlan plan;  // the plan for these signatures
};

// Schedules and lowers a program that is verified and optimized. Throws Error{compile} if there is no
// signature, or if one does not fit the program.
Variant make_variant(const Program& program, const std::vector<Signature>& signatures,
                     Form form = Form::fused);

}  // namespace stepfuse
