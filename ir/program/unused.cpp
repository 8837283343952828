// Finds unused declarations and values. Knows ir and fmt.
#include "ir/program/unused.hpp"

#include <fmt/format.h>

namespace stepfuse {

std::vector<Diagnostic> find_unused(const Program& p) {
  std::vector<bool> used(p.insts.size(), false), buffers(p.buffers.size(), false),
      states(p.states.size(), false), tables(p.tables.size(), false);
  for (const Inst& inst : p.insts) {
    for_each_operand(inst, [&](ValueId o) { used[static_cast<size_t>(o)] = true; });
    auto slot = static_cast<size_t>(inst.slot);
    if (inst.op == Op::load || inst.op == Op::store) buffers[slot] = true;
    if (inst.op == Op::read || inst.op == Op::write) states[slot] = true;
    if (reads_table(inst.op)) tables[slot] = true;
  }
  for (const Buffer& b : p.buffers) {
    if (b.init == Buffer::Init::copy) buffers[static_cast<size_t>(b.init_from)] = true;
    if (b.order.any()) buffers[static_cast<size_t>(&b - p.buffers.data())] = true;
  }
  std::vector<Diagnostic> found;
  auto declared = [&](std::string_view kind, size_t i, const std::string& name,
                      const std::vector<SourceLoc>& locs) {
    SourceLoc loc = i < locs.size() ? locs[i] : SourceLoc{};
    found.push_back({0, loc, fmt::format("{} @{} is never used: remove it", kind, name)});
  };
  for (size_t i = 0; i < p.buffers.size(); ++i) {
    if (!buffers[i]) declared("buffer", i, p.buffers[i].name, p.buffer_locs);
  }
  for (size_t i = 0; i < p.states.size(); ++i) {
    if (!states[i]) declared("state", i, p.states[i].name, p.state_locs);
  }
  for (size_t i = 0; i < p.tables.size(); ++i) {
    if (!tables[i]) declared("table", i, p.tables[i].name, p.table_locs);
  }
  for (ValueId v = 0; v < p.size(); ++v) {
    auto i = static_cast<size_t>(v);
    if (used[i] || is_effect(p[v].op)) continue;
    std::string_view what = p[v].op == Op::arg      ? "arg"
                            : is_reduction(p[v].op) ? "the reduction"
                                                    : "the value";
    found.push_back(
        {0, p.locs[i], fmt::format("{} %{} is never used: remove it", what, p.names[i]), v});
  }
  return found;
}

}  // namespace stepfuse
