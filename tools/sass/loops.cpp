// Finds loops, which are backward branches, and their fast paths. The fast path has the fewest
// instructions per loaded byte; calls and narrow accesses count as long.
#include "tools/sass/loops.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <tuple>

namespace stepfuse::sass {
namespace {

constexpr int kCall = 10'000;
constexpr int kNarrow = 50;
// per turn; without a limit, going round an inner loop would load ever more
constexpr int kMostBytes = 1024;

int length(const Instruction& i) {
  if (i.is_call()) return kCall;
  bool narrow = (i.is_global_load() || i.is_global_store()) && i.bytes() < 4;
  return narrow ? kNarrow : 1;
}

bool is_wide(const Instruction& i) {
  return (i.is_global_load() || i.is_global_store()) && i.bytes() >= 8;
}

// The instructions that may follow, within the loop.
std::vector<int> successors(const Function& f, int at) {
  const Instruction& i = f.code[static_cast<size_t>(at)];
  std::vector<int> next;
  bool leaves = i.base() == "EXIT" || i.base() == "RET" || i.target >= 0;
  // "BRA P0, `(…)" has its condition behind the opcode.
  bool conditional = !i.predicate.empty() || (i.base() == "BRA" && !i.operands.starts_with('`'));
  if (i.target >= 0) next.push_back(i.target);
  if (!leaves || conditional) next.push_back(at + 1);
  return next;
}

// Accesses of 4 bytes or more under the predicate of a later branch, which happen on only one of
// its two ways.
struct Bound {
  std::vector<int> accesses;
  int bytes = 0;  // bytes that they load
  bool on_jump = false;
};

// Maps each branch of a loop to its accesses.
std::map<int, Bound> bound_accesses(const Function& f, int head, int latch) {
  std::map<int, Bound> out;
  auto bare = [](const std::string& predicate) {
    return predicate.substr(predicate.find_first_not_of("@!"));
  };
  for (int k = head; k <= latch; ++k) {
    const Instruction& access = f.code[static_cast<size_t>(k)];
    bool whole = (access.is_global_load() || access.is_global_store()) && access.bytes() >= 4;
    if (!whole || access.predicate.empty()) continue;
    for (int at = k + 1; at <= latch; ++at) {
      const Instruction& i = f.code[static_cast<size_t>(at)];
      // the predicate has a new value from here on
      if (i.operands.starts_with(bare(access.predicate) + ",")) break;
      if (i.target < 0) continue;
      if (i.predicate.empty() || bare(i.predicate) != bare(access.predicate)) break;
      Bound& bound = out[at];
      bool on_jump = i.predicate == access.predicate;
      if (!bound.accesses.empty() && bound.on_jump != on_jump) break;
      bound.on_jump = on_jump;
      bound.accesses.push_back(k);
      bound.bytes += access.is_global_load() && is_wide(access) ? access.bytes() : 0;
      break;
    }
  }
  return out;
}

// A path's progress: the instruction, and the bytes that wide accesses have loaded so far. A
// predicated access counts once its predicate is known.
struct PathState {
  int at, bytes;
  auto operator<=>(const PathState&) const = default;
};
struct Reached {
  int length;
  PathState before;
};

PathState place(const Function& f, int at, int bytes) {
  const Instruction& i = f.code[static_cast<size_t>(at)];
  bool counts = i.is_global_load() && is_wide(i) && i.predicate.empty();
  return {at, bytes + (counts ? i.bytes() : 0)};
}

// Finds the shortest path per number of bytes moved, and returns the one with the fewest
// instructions per byte: a turn may take several tiles at once, or a single one.
Loop fast_loop(const Function& f, int head, int latch) {
  constexpr PathState kUnset{-1, 0};
  const std::map<int, Bound> bound = bound_accesses(f, head, latch);
  auto takes = [&](const Bound& b, int branch, int next) {
    return b.on_jump == (next == f.code[static_cast<size_t>(branch)].target);
  };
  std::map<PathState, Reached> reached;
  using Entry = std::pair<int, PathState>;  // length so far
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  auto reach = [&](PathState to, int length, PathState from) {
    auto [known, is_new] = reached.try_emplace(to, length, from);
    if (!is_new && known->second.length <= length) return;
    known->second = {length, from};
    queue.push({length, to});
  };
  reach(place(f, head, 0), length(f.code[static_cast<size_t>(head)]), kUnset);
  PathState best = kUnset;
  double least = std::numeric_limits<double>::infinity();
  while (!queue.empty()) {
    auto [so_far, here] = queue.top();
    queue.pop();
    if (so_far > reached.at(here).length) continue;
    if (here.at == latch) {
      double each = static_cast<double>(so_far) / std::max(here.bytes, 1);
      if (each < least) std::tie(least, best) = std::tuple(each, here);
      continue;
    }
    for (int next : successors(f, here.at)) {
      if (next <= head || next > latch) continue;
      if (here.bytes > kMostBytes) continue;
      auto b = bound.find(here.at);
      bool more = b != bound.end() && takes(b->second, here.at, next);
      reach(place(f, next, here.bytes + (more ? b->second.bytes : 0)),
            so_far + length(f.code[static_cast<size_t>(next)]), here);
    }
  }
  Loop loop{.head = head, .latch = latch, .path = {}, .made = {}};
  std::set<int> not_made;
  int next = -1;
  for (PathState at = best; at != kUnset; at = reached.at(at).before) {
    auto b = bound.find(at.at);
    if (b != bound.end() && !takes(b->second, at.at, next)) {
      not_made.insert(b->second.accesses.begin(), b->second.accesses.end());
    } else if (b != bound.end()) {
      for (int k : b->second.accesses) loop.made.insert(&f.code[static_cast<size_t>(k)]);
    }
    next = at.at;
    if (!not_made.contains(at.at)) loop.path.push_back(&f.code[static_cast<size_t>(at.at)]);
  }
  std::reverse(loop.path.begin(), loop.path.end());
  return loop;
}

}  // namespace

std::vector<Loop> streaming_loops(const Function& f) {
  std::vector<Loop> found;
  for (int at = 0; at < static_cast<int>(f.code.size()); ++at) {
    int target = f.code[static_cast<size_t>(at)].target;
    if (target < 0 || target > at || f.code[static_cast<size_t>(at)].base() != "BRA") continue;
    // Inner loops end first. A loop around another streaming loop is not innermost. If a head has
    // several latches, the last one closes the whole loop.
    bool around = std::any_of(found.begin(), found.end(),
                              [&](const Loop& l) { return l.head > target && l.latch < at; });
    if (around) continue;
    Loop loop = fast_loop(f, target, at);
    bool streams = std::any_of(loop.path.begin(), loop.path.end(),
                               [](const Instruction* i) { return is_wide(*i); });
    if (!streams) continue;
    std::erase_if(found, [&](const Loop& l) { return l.head == target; });
    found.push_back(std::move(loop));
  }
  std::sort(found.begin(), found.end(),
            [](const Loop& a, const Loop& b) { return a.head < b.head; });
  return found;
}

}  // namespace stepfuse::sass
