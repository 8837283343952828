// Barriers, shuffles, votes: what threads of a block or a warp do with each other.
#include <bit>

#include <fmt/format.h>

#include "tools/ptx_machine/lanes.hpp"
#include "tools/ptx_machine/launch.hpp"
#include "tools/ptx_machine/semantics/control.hpp"

namespace ptx {
namespace {

void run_barrier(Thread& t, const Instruction& i) {
  u32 expected = i.b == kNoSlot ? 0 : static_cast<u32>(t.r[i.b]);
  t.launch->arrive(t, i, static_cast<u32>(t.r[i.a]), expected);
}

template <WarpFunction F>
void run_in_warp(Thread& t, const Instruction& i) {
  t.launch->arrive_in_warp(t, i, static_cast<u32>(t.r[i.e]), F);
}

// All lanes that are to meet are here: nobody has to wait.
template <WarpFunction F>
bool run_lanes_in_warp(Lanes& lanes, const Instruction& i) {
  Warp& warp = *lanes.warp;
  for (u32 rest = lanes.bits; rest != 0; rest &= rest - 1) {
    auto named = static_cast<u32>(lanes.value(i.e, static_cast<u32>(std::countr_zero(rest))));
    if ((named & warp.live) != lanes.bits) return false;
  }
  for (u32 rest = lanes.bits; rest != 0; rest &= rest - 1) {
    Thread& t = warp.lanes[std::countr_zero(rest)];
    t.pending = &i;
    t.pc = lanes.pc + 1;
  }
  F(warp, lanes.bits);
  for (u32 rest = lanes.bits; rest != 0; rest &= rest - 1) {
    warp.lanes[std::countr_zero(rest)].pending = nullptr;
  }
  return true;
}

template <WarpFunction F>
Run in_warp(Instruction& i) {
  i.run_lanes = &run_lanes_in_warp<F>;
  return &run_in_warp<F>;
}

template <class Each>
void for_lanes(Warp& warp, u32 members, Each each) {
  for (u32 rest = members; rest != 0; rest &= rest - 1) each(warp.lanes[std::countr_zero(rest)]);
}

void meet_in_warp(Warp& warp, u32 members) {
  std::vector<Thread*> threads;
  for_lanes(warp, members, [&](Thread& t) { threads.push_back(&t); });
  SyncClocks::meet(threads, false);
}

enum class ShuffleMode : u8 { up, down, bfly, idx };

// c holds the segment mask in bits 8-12 and the clamp in bits 0-4.
void shuffle_lanes(Warp& warp, u32 members) {
  std::array<u32, 32> values{};
  for_lanes(warp, members,
            [&](Thread& t) { values[t.lane] = static_cast<u32>(t.r[t.pending->a]); });
  for_lanes(warp, members, [&](Thread& t) {
    const Instruction& i = *t.pending;
    s32 lane = t.lane;
    auto b = static_cast<s32>(t.r[i.b] & 31);
    auto clamp = static_cast<s32>(t.r[i.c] & 31);
    auto segment = static_cast<s32>(t.r[i.c] >> 8 & 31);
    s32 max_lane = (lane & segment) | (clamp & ~segment);
    s32 min_lane = lane & segment;
    s32 source = lane;
    bool inside = false;
    switch (static_cast<ShuffleMode>(i.mode)) {
      case ShuffleMode::up:
        source = lane - b;
        inside = source >= max_lane;
        break;
      case ShuffleMode::down:
        source = lane + b;
        inside = source <= max_lane;
        break;
      case ShuffleMode::bfly:
        source = lane ^ b;
        inside = source <= max_lane;
        break;
      case ShuffleMode::idx:
        source = min_lane | (b & ~segment);
        inside = source <= max_lane;
        break;
    }
    if (!inside) source = lane;
    if ((members >> source & 1) == 0) {
      fail(t, ErrorKind::bad_warp_operation,
           fmt::format("lane {} reads from lane {}, which does not take part", lane, source));
    }
    t.r[i.d] = values[static_cast<u32>(source)];
    if (i.p != kNoSlot) t.r[i.p] = inside ? 1 : 0;
  });
}

bool predicate(const Thread& t) { return ((t.r[t.pending->a] & 1) != 0) != t.pending->negate; }

enum class VoteMode : u8 { all, any, uni, ballot };

void vote_lanes(Warp& warp, u32 members) {
  u32 ballot = 0;
  for_lanes(warp, members, [&](Thread& t) { ballot |= (predicate(t) ? 1u : 0u) << t.lane; });
  for_lanes(warp, members, [&](Thread& t) {
    u32 results[4] = {ballot == members, ballot != 0, ballot == members || ballot == 0, ballot};
    t.r[t.pending->d] = results[t.pending->mode];
  });
}

enum class ReduceMode : u8 { add, min_u, max_u, min_s, max_s, bit_and, bit_or, bit_xor };

u32 combined(ReduceMode mode, u32 a, u32 b) {
  auto less = static_cast<s32>(a) < static_cast<s32>(b);
  switch (mode) {
    case ReduceMode::add:
      return a + b;
    case ReduceMode::min_u:
      return std::min(a, b);
    case ReduceMode::max_u:
      return std::max(a, b);
    case ReduceMode::min_s:
      return less ? a : b;
    case ReduceMode::max_s:
      return less ? b : a;
    case ReduceMode::bit_and:
      return a & b;
    case ReduceMode::bit_or:
      return a | b;
    case ReduceMode::bit_xor:
      return a ^ b;
  }
  return a;
}

void reduce_lanes(Warp& warp, u32 members) {
  const Thread& first = warp.lanes[std::countr_zero(members)];
  auto mode = static_cast<ReduceMode>(first.pending->mode);
  auto total = static_cast<u32>(first.r[first.pending->a]);
  for_lanes(warp, members & (members - 1),
            [&](Thread& t) { total = combined(mode, total, static_cast<u32>(t.r[t.pending->a])); });
  for_lanes(warp, members, [&](Thread& t) { t.r[t.pending->d] = total; });
}

template <class T>
void match_lanes(Warp& warp, u32 members) {
  for_lanes(warp, members, [&](Thread& t) {
    u32 same = 0;
    for_lanes(warp, members, [&](Thread& o) {
      bool equal = static_cast<T>(o.r[o.pending->a]) == static_cast<T>(t.r[t.pending->a]);
      same |= (equal ? 1u : 0u) << o.lane;
    });
    t.r[t.pending->d] = same;
  });
}

}  // namespace

// `count` 0: the warp's threads may come from different places.
Run barrier(const Form& form, Instruction& i) {
  i.count = 1;
  i.mode = form.has("and") ? 0 : form.has("or") ? 1 : 2;
  return &run_barrier;
}
Run barrier_unaligned(const Form& form, Instruction& i) {
  Run run = barrier(form, i);
  i.count = form.has("aligned") ? 1 : 0;
  return run;
}
Run warp_barrier(const Form&, Instruction& i) { return in_warp<meet_in_warp>(i); }
Run shuffle(const Form& form, Instruction& i) {
  i.mode = static_cast<u8>(form.has("up")     ? ShuffleMode::up
                           : form.has("down") ? ShuffleMode::down
                           : form.has("bfly") ? ShuffleMode::bfly
                                              : ShuffleMode::idx);
  return in_warp<shuffle_lanes>(i);
}
Run vote(const Form& form, Instruction& i) {
  i.mode = static_cast<u8>(form.has("all")   ? VoteMode::all
                           : form.has("any") ? VoteMode::any
                           : form.has("uni") ? VoteMode::uni
                                             : VoteMode::ballot);
  return in_warp<vote_lanes>(i);
}
Run warp_reduction(const Form& form, Instruction& i) {
  bool is_signed = form.type == Type::s32;
  i.mode = static_cast<u8>(form.has("add")   ? ReduceMode::add
                           : form.has("min") ? (is_signed ? ReduceMode::min_s : ReduceMode::min_u)
                           : form.has("max") ? (is_signed ? ReduceMode::max_s : ReduceMode::max_u)
                           : form.has("and") ? ReduceMode::bit_and
                           : form.has("or")  ? ReduceMode::bit_or
                                             : ReduceMode::bit_xor);
  return in_warp<reduce_lanes>(i);
}
Run match_any(const Form& form, Instruction& i) {
  return form.type == Type::b32 ? in_warp<match_lanes<u32>>(i) : in_warp<match_lanes<u64>>(i);
}

}  // namespace ptx
