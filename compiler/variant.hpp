// A step in one form, for certain storage types: what a kernel is compiled from and known by. Knows ir
// and the plan.
#pragma once

#include <vector>

#include <stepfuse/program.hpp>

#include "compiler/plan/plan.hpp"
#include "compiler/signature.hpp"

namespace stepfuse {

struct Variant {
  Program program;
  std::vector<Signature> signatures;
  KernelPlan plan;  // of these
};

// Schedules and lowers a program that is verified and optimized. Throws Error{compile} where there is
// no signature or one that does not fit the program.
Variant make_variant(const Program& program, const std::vector<Signature>& signatures,
                     Form form = Form::fused);

}  // namespace stepfuse
