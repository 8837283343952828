// CUDA text of the values that a chunk's threads share: those of its group, tensor and row, computed by the
// first thread. Knows the plan.
#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "compiler/cuda/ops.hpp"
#include "compiler/cuda/state.hpp"

namespace stepfuse::cuda {
namespace {

std::string from_section(const Emission& e, Id v) {
  return fmt::format("own.{}{}", e.name(v), e.plan[v].dtype == DType::boolean ? " != 0" : "");
}

}  // namespace

ChunkValues::ChunkValues(const plan::Uniform& code, ValueSet used)
    : code_(code), used_(std::move(used)), fields_(used_) {
  auto computes = [](const plan::Inst& inst) { return is_computed(inst.op); };
  for (const plan::Inst& inst : code.of(per::tensor))
    (computes(inst) ? rest_ : reads_).push_back(inst);
  keeps_ = !used_.empty() && (!rest_.empty() || std::any_of(code.of(per::group).begin(),
                                                            code.of(per::group).end(), computes));
  if (!keeps_) return;
  ValueSet made;
  for (Granularity g : {per::group, per::tensor}) {
    for (const plan::Inst& inst : code.of(g)) made.insert(inst.value);
  }
  for_each_operand(code.of(per::row), [&](Id o) {
    if (made.contains(o)) for_rows_.insert(o);
  });
  std::set_intersection(used_.begin(), used_.end(), made.begin(), made.end(),
                        std::inserter(kept_, kept_.end()));
  kept_.insert(for_rows_.begin(), for_rows_.end());
  for (const plan::Inst& inst : reads_) kept_.insert(inst.value);
  fields_.insert(kept_.begin(), kept_.end());
}

void ChunkValues::emit_struct(Emission& e, const std::string& name) const {
  if (used_.empty()) return;
  cuda::emit_struct(e, name, fields_, keeps_ ? "u32 of_tensor, of_group;" : "");
}

void ChunkValues::emit_sections(Emission& e, const std::string& name) const {
  e.out.line(fmt::format("__shared__ {} sections[1 + kWarps];", name));
  if (!keeps_) return;
  auto clear = [&](std::string_view threads, std::string_view section) {
    e.out.open(fmt::format("if (threadIdx.x % {} == 0)", threads));
    e.out.line(fmt::format("{0} = {{}};", section));
    e.out.line(fmt::format("{0}.of_tensor = {0}.of_group = kNone;", section));
    e.out.close();
  };
  clear("kThreads", "sections[0]");
  clear("kWarp", "sections[1 + threadIdx.x / kWarp]");
}

// If a tensor has the same group as the one before and reads the same values, the computed values are the
// same as well: thousands of tensors have equal step counts.
void ChunkValues::emit(Emission& e, const std::string& name) const {
  if (!keeps_) {
    if (!code_.of(per::group).empty()) e.out.line("const u32 group = tensor.group;");
    emit_uniform_lines(e, code_.of(per::group));
    emit_uniform_lines(e, code_.of(per::tensor));
    emit_uniform_lines(e, code_.of(per::row));
    emit_copies_to(e, "sections[work.section]", used_);
    return;
  }
  e.out.line(fmt::format("{}& own = sections[work.section];", name));
  e.out.open("if (own.of_tensor != tensor_index)");
  e.out.line("own.of_tensor = tensor_index;");
  e.out.line("const u32 group = tensor.group;");
  emit_uniform_lines(e, reads_);
  std::string same = "own.of_group == group";
  for (const plan::Inst& inst : reads_) {
    same += fmt::format(" && raw_of({}) == raw_of({})", from_section(e, inst.value),
                        e.name(inst.value));
  }
  e.out.open(fmt::format("if (!({}))", same));
  e.out.line("own.of_group = group;");
  emit_uniform_lines(e, code_.of(per::group));
  emit_uniform_lines(e, rest_);
  for (Id v : kept_) e.out.line(fmt::format("own.{0} = {0};", e.name(v)));
  e.out.close();
  e.out.close();
  if (code_.of(per::row).empty()) return;
  emit_copies_from(e, "own", for_rows_);
  emit_uniform_lines(e, code_.of(per::row));
  for (const plan::Inst& inst : code_.of(per::row)) {
    if (used_.contains(inst.value)) {
      e.out.line(fmt::format("own.{0} = {0};", e.name(inst.value)));
    }
  }
}

}  // namespace stepfuse::cuda
