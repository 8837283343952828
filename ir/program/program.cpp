// Looks up names in a Program, and derives facts from its granularities. Knows ir only.
#include <algorithm>
#include <set>

#include <stepfuse/program.hpp>

namespace stepfuse {
namespace {
template <class T>
int find_named(const std::vector<T>& list, std::string_view wanted) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i].name == wanted) return static_cast<int>(i);
  }
  return -1;
}
}  // namespace

std::string_view name(Access a) {
  switch (a) {
    case Access::in:
      return "in";
    case Access::out:
      return "out";
    case Access::inout:
      return "inout";
  }
  internal_error("bad Access");
}

int Program::find_buffer(std::string_view n) const { return find_named(buffers, n); }
int Program::find_state(std::string_view n) const { return find_named(states, n); }
int Program::find_arg(std::string_view n) const { return find_named(args, n); }

std::vector<Granularity> granularities_of(const Program& program) {
  std::vector<Granularity> all;
  auto add = [&](Granularity g) {
    if (std::find(all.begin(), all.end(), g) == all.end()) all.push_back(g);
  };
  for (const Inst& inst : program.insts) add(inst.type.at);
  for (const State& state : program.states) add(state.type.at);
  for (const Buffer& buffer : program.buffers) add(buffer.at);
  return all;
}

bool has_rows(const Program& program) {
  std::vector<Granularity> all = granularities_of(program);
  return std::any_of(all.begin(), all.end(), needs_rows);
}

std::vector<Granularity> combined_granularities(const Program& program) {
  std::vector<Granularity> all;
  for (const Inst& inst : program.insts) {
    if (!is_folded(inst) || ordered_rows(inst.type.at) == 0) continue;
    Granularity g = partials_of(inst.type.at).value_or(inst.type.at);
    if (std::find(all.begin(), all.end(), g) == all.end()) all.push_back(g);
  }
  return all;
}

bool arranges(const Program& program) {
  return std::any_of(program.buffers.begin(), program.buffers.end(),
                     [](const Buffer& b) { return b.order.any(); });
}

std::vector<Granularity> counted_granularities(const Program& program) {
  std::vector<Granularity> all = combined_granularities(program);
  if (arranges(program) && std::find(all.begin(), all.end(), kArrangedTile) == all.end()) {
    all.push_back(kArrangedTile);
  }
  return all;
}

int32_t rows_in_order(const Program& program) {
  int32_t rows = 0;
  for (Granularity g : granularities_of(program)) rows = std::max(rows, ordered_rows(g));
  return rows;
}

std::vector<uint64_t> tensor_classes(const Program& program) {
  std::set<uint64_t> begins = {0};
  for (const Buffer& b : program.buffers) {
    begins.insert(b.from);
    if (b.below != Buffer::kAnySize) begins.insert(b.below);
  }
  return {begins.begin(), begins.end()};
}

}  // namespace stepfuse
