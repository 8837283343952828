// Loops are backward branches; the fast path is the shortest one, where calls and narrow accesses are long.
#include "tools/sass/loops.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>

namespace stepfuse::sass {
namespace {

constexpr int kCall = 10'000;
constexpr int kNarrow = 50;

int length(const Instruction& i) {
  if (i.is_call()) return kCall;
  bool narrow = (i.is_global_load() || i.is_global_store()) && i.bytes() < 4;
  return narrow ? kNarrow : 1;
}

bool is_wide(const Instruction* i) {
  return (i->is_global_load() || i->is_global_store()) && i->bytes() >= 8;
}

// Where an instruction may go, within the loop.
std::vector<int> successors(const Function& f, int at) {
  const Instruction& i = f.code[static_cast<size_t>(at)];
  std::vector<int> next;
  bool leaves = i.base() == "EXIT" || i.base() == "RET" || i.target >= 0;
  // "BRA P0, `(…)" has a condition behind the opcode.
  bool conditional = !i.predicate.empty() || (i.base() == "BRA" && !i.operands.starts_with('`'));
  if (i.target >= 0) next.push_back(i.target);
  if (!leaves || conditional) next.push_back(at + 1);
  return next;
}

std::vector<const Instruction*> fast_path(const Function& f, int head, int latch) {
  auto count = static_cast<size_t>(latch - head + 1);
  std::vector<int> best(count, std::numeric_limits<int>::max());
  std::vector<int> before(count, -1);
  using Entry = std::pair<int, int>;  // length so far, instruction
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  best[0] = length(f.code[static_cast<size_t>(head)]);
  queue.push({best[0], head});
  while (!queue.empty()) {
    auto [so_far, at] = queue.top();
    queue.pop();
    if (at == latch) break;
    if (so_far > best[static_cast<size_t>(at - head)]) continue;
    for (int next : successors(f, at)) {
      if (next <= head || next > latch) continue;
      int there = so_far + length(f.code[static_cast<size_t>(next)]);
      auto k = static_cast<size_t>(next - head);
      if (there >= best[k]) continue;
      best[k] = there;
      before[k] = at;
      queue.push({there, next});
    }
  }
  std::vector<const Instruction*> path;
  if (latch != head && before.back() < 0) return path;
  for (int at = latch; at >= head; at = before[static_cast<size_t>(at - head)]) {
    path.push_back(&f.code[static_cast<size_t>(at)]);
    if (at == head) break;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace

std::vector<Loop> streaming_loops(const Function& f) {
  std::vector<Loop> found;
  for (int at = 0; at < static_cast<int>(f.code.size()); ++at) {
    int target = f.code[static_cast<size_t>(at)].target;
    if (target < 0 || target > at || f.code[static_cast<size_t>(at)].base() != "BRA") continue;
    Loop loop{target, at, fast_path(f, target, at)};
    if (std::none_of(loop.path.begin(), loop.path.end(), is_wide)) continue;
    // Inner loops end first; one around another that streams is not innermost. Of several latches of
    // one head the last closes the whole loop.
    bool around = std::any_of(found.begin(), found.end(),
                              [&](const Loop& l) { return l.head > target && l.latch < at; });
    if (around) continue;
    std::erase_if(found, [&](const Loop& l) { return l.head == target; });
    found.push_back(std::move(loop));
  }
  std::sort(found.begin(), found.end(),
            [](const Loop& a, const Loop& b) { return a.head < b.head; });
  return found;
}

}  // namespace stepfuse::sass
