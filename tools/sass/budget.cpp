// Counts along a loop's fast path and follows its barriers.
#include "tools/sass/budget.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace stepfuse::sass {
namespace {

enum class Kind { memory, floats, doubles, integers, special, control };

Kind kind_of(const Instruction& i) {
  struct Row {
    std::string_view begins;
    Kind kind;
  };
  // The first row whose text begins the opcode applies. Conversions between floats and integers use
  // the special units, except F2FP, which packs.
  static constexpr Row kRows[] = {
      {"LD", Kind::memory},     {"ST", Kind::memory},        {"ATOM", Kind::memory},
      {"RED", Kind::memory},    {"MUFU", Kind::special},     {"FCHK", Kind::special},
      {"F2FP", Kind::floats},   {"F2F", Kind::special},      {"F2I", Kind::special},
      {"I2F", Kind::special},   {"FRND", Kind::special},     {"POPC", Kind::special},
      {"FLO", Kind::special},   {"DADD", Kind::doubles},     {"DMUL", Kind::doubles},
      {"DFMA", Kind::doubles},  {"DSETP", Kind::doubles},    {"DMNMX", Kind::doubles},
      {"BRA", Kind::control},   {"BSSY", Kind::control},     {"BSYNC", Kind::control},
      {"BREAK", Kind::control}, {"CALL", Kind::control},     {"EXIT", Kind::control},
      {"NOP", Kind::control},   {"WARPSYNC", Kind::control}, {"BAR", Kind::control},
      {"F", Kind::floats},      {"H", Kind::floats},
  };
  for (const Row& row : kRows) {
    if (i.opcode.starts_with(row.begins)) return row.kind;
  }
  return Kind::integers;
}

bool is_local(const Instruction& i) { return i.base() == "LDL" || i.base() == "STL"; }

// Assumed cycles from issue to result for instructions without a fixed latency, in round numbers.
// They serve to compare two versions of one loop.
int latency_of(const Instruction& i) {
  if (i.is_global_load()) return 0;  // counted separately: warps hide this latency
  switch (kind_of(i)) {
    case Kind::memory:
      return 30;  // shared and constant memory
    case Kind::special:
      return 23;
    case Kind::doubles:
      return 16;
    default:
      return 10;
  }
}

// Follows the barriers that belong to global loads in flight.
void count_loads(const Loop& loop, Budget* b) {
  uint32_t loading = 0;
  bool waited = false;
  for (const Instruction* i : loop.path) {
    if ((i->control.waits & loading) != 0) waited = true;
    if (!i->is_global_load()) continue;
    if (i->control.write_barrier < 6) loading |= 1u << i->control.write_barrier;
    ++b->loads;
    if (waited) continue;
    ++b->loads_at_once;
    b->bytes_at_once += i->bytes();
  }
}

void count_cycles(const Loop& loop, Budget* b) {
  int now = 0;
  std::array<int, 6> clear_at{};
  for (const Instruction* i : loop.path) {
    for (size_t barrier = 0; barrier < clear_at.size(); ++barrier) {
      if ((i->control.waits >> barrier & 1) != 0) now = std::max(now, clear_at[barrier]);
    }
    auto set = [&](int barrier, int latency) {
      if (barrier < 6) {
        int& at = clear_at[static_cast<size_t>(barrier)];
        at = std::max(at, now + latency);
      }
    };
    set(i->control.write_barrier, latency_of(*i));
    set(i->control.read_barrier, 10);
    now += std::max(1, i->control.stall);
    b->issue_cycles += std::max(1, i->control.stall);
  }
  b->exposed_cycles = now;
}

}  // namespace

Budget budget_of(const Loop& loop, Moved expected) {
  Budget b;
  b.instructions = static_cast<int>(loop.path.size());
  for (const Instruction* i : loop.path) {
    int* counts[] = {&b.memory, &b.floats, &b.doubles, &b.integers, &b.special, &b.control};
    ++*counts[static_cast<size_t>(kind_of(*i))];
    b.calls += i->is_call() ? 1 : 0;
    b.local += is_local(*i) ? 1 : 0;
    bool load = i->is_global_load();
    if (!load && !i->is_global_store()) continue;
    // A narrow store under a predicate is a value per block, which one of the block's threads
    // stores.
    if (!load && i->bytes() < 8 && !i->predicate.empty() && !loop.made.contains(i)) continue;
    (load ? b.loaded : b.stored) += i->bytes();
    b.narrow += i->bytes() < 4 ? 1 : 0;
    b.wide_bytes += i->bytes() >= 16 ? i->bytes() : 0;
  }
  const auto [read, written, shared] = expected;
  const int eight = 8 * read + shared;
  const int elements = eight > 0 ? 8 * b.loaded / eight : written > 0 ? b.stored / written : 0;
  bool agrees = elements * eight == 8 * b.loaded && elements * written == b.stored;
  if (agrees) b.elements = elements;
  count_loads(loop, &b);
  count_cycles(loop, &b);
  return b;
}

std::vector<std::string> findings(const Loop& loop, const Budget& b) {
  std::vector<std::string> out;
  auto first = [&](auto&& is) -> std::string {
    for (const Instruction* i : loop.path) {
      if (is(*i)) return fmt::format("{} {} at {:#x}", i->opcode, i->operands, i->address);
    }
    return "";
  };
  if (b.elements == 0) {
    out.push_back(
        fmt::format("a turn loads {} and stores {} bytes, which is not a whole number of elements",
                    b.loaded, b.stored));
  }
  if (b.calls != 0) {
    out.push_back("a call on the fast path: " +
                  first([](const Instruction& i) { return i.is_call(); }));
  }
  if (b.local != 0) out.push_back("a spill: " + first(is_local));
  if (b.narrow != 0) {
    out.push_back("a narrow access: " + first([](const Instruction& i) {
                    return (i.is_global_load() || i.is_global_store()) && i.bytes() < 4;
                  }));
  }
  if (b.loads_at_once < b.loads) {
    out.push_back(fmt::format("a wait after {} of {} loads", b.loads_at_once, b.loads));
  }
  return out;
}

}  // namespace stepfuse::sass
