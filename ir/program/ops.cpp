// Looks up ops in ops.def. Knows only std.
#include <stepfuse/ops.hpp>

namespace stepfuse {
namespace {
constexpr OpInfo kOps[] = {
#define X(id, text, arity, rule) {Op::id, text, arity, TypeRule::rule},
#include <stepfuse/ops.def>
#undef X
};
}  // namespace

const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }
std::span<const OpInfo> all_ops() { return kOps; }

std::optional<Op> op_from_name(std::string_view text) {
  for (const OpInfo& o : kOps) {
    if (o.name == text) return o.op;
  }
  return std::nullopt;
}

}  // namespace stepfuse
