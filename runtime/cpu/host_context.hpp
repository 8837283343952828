// The kernel's Context of a step whose memory is the host's. Knows the kernel ABI and the backend
// interface.
#pragma once

#include "runtime/device/backend.hpp"

namespace stepfuse {

class HostContext {
 public:
  HostContext() = default;
  HostContext(const StepTables& tables, const DeviceBlock& block) : states_(block.states) {
    const WorkspacePlan& plan = *block.plan;
    auto pointers = [&](const std::vector<size_t>& offsets) {
      std::vector<void*> out;
      for (size_t o : offsets) out.push_back(block.base + o);
      return out;
    };
    slots_ = pointers(plan.slots);
    results_ = pointers(plan.results);
    scratch_ = pointers(plan.scratch);
    context_.states = states_.data();
    context_.slots = slots_.data();
    context_.results = results_.data();
    context_.scratch = scratch_.data();
    context_.scalars = reinterpret_cast<uint64_t*>(block.base + plan.scalars);
    context_.chunk_count = static_cast<uint32_t>(tables.chunks.size());
    context_.tensor_count = static_cast<uint32_t>(tables.tensors.size());
    tables.parts.describe(&context_);
  }
  // Moving keeps the arrays in place, so the context's pointers stay valid.
  HostContext(HostContext&&) = default;
  HostContext& operator=(HostContext&&) = default;

  // Returns the context for this run.
  const abi::Context& of(const RunInputs& in) {
    context_.chunks = in.tables->chunks.data();
    context_.tensors = in.tables->tensors.data();
    context_.bases = in.tables->bases.data();
    context_.pointers = in.tables->pointers.data();
    context_.step_args = in.host_args();
    context_.group_args = in.host_args() + in.step_arg_count;
    context_.group_count = in.group_count;
    return context_;
  }

 private:
  std::vector<void*> states_, slots_, results_, scratch_;
  abi::Context context_{};
};

}  // namespace stepfuse
