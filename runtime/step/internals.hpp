// The way from the public objects to their insides, for the runtime's parts and tests. Knows the public API.
#pragma once

#include <algorithm>
#include <iterator>

#include <stepfuse/ops.hpp>
#include <stepfuse/stepfuse.hpp>

namespace stepfuse {

inline constexpr Op kReductionOps[] = {Op::reduce_add, Op::reduce_max, Op::reduce_min,
                                       Op::reduce_any};
inline Op op_of(Reduction reduction) {
  auto i = static_cast<size_t>(reduction);
  if (i < std::size(kReductionOps)) return kReductionOps[i];
  throw Error(ErrorKind::usage, std::to_string(i) + " is not a Reduction");
}
inline Reduction to_reduction(Op op) {
  const Op* found = std::find(std::begin(kReductionOps), std::end(kReductionOps), op);
  check_internal(found != std::end(kReductionOps), "the op of a partial result is not a reduction");
  return static_cast<Reduction>(found - kReductionOps);
}

struct Internals {
  // Throws Error{usage} for a step that was moved from.
  static Step::Impl& of(const Step& step) { return step.impl(); }
  static const std::shared_ptr<LossScaler::Shared>& of(const LossScaler& scaler) {
    return scaler.shared_;
  }
  // The group or tensor with that number, whichever the argument has: C has no types for the two.
  static Member member(int64_t index) {
    Member any;
    any.index_ = index;
    return any;
  }
};

}  // namespace stepfuse
