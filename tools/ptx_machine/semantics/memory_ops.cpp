// Loads, stores and fences on the machine's memory; knows places, clocks and races.
#include "tools/ptx_machine/semantics/memory_ops.hpp"

#include "tools/ptx_machine/semantics/apply.hpp"
#include "tools/ptx_machine/semantics/lane_access.hpp"
#include "tools/ptx_machine/semantics/place.hpp"

namespace ptx {
namespace {

Space space_of(const Form& form) {
  if (form.has("global")) return Space::global;
  if (form.has("shared") || form.has("shared::cta")) return Space::shared;
  if (form.has("local")) return Space::local;
  if (form.has("param") || form.has("param::entry")) return Space::param;
  if (form.has("const")) return Space::constant;
  return Space::generic;
}

void set_access(const Form& form, Instruction& i) {
  i.space = space_of(form);
  i.width = bytes_of(form.type);
  i.scope = form.has("cta")                           ? Scope::cta
            : form.has("sys") || form.has("volatile") ? Scope::sys
                                                      : Scope::gpu;
  i.order = form.has("relaxed") || form.has("volatile") ? Order::relaxed
            : form.has("acquire")                       ? Order::acquire
            : form.has("release")                       ? Order::release
            : form.has("acq_rel")                       ? Order::acq_rel
                                                        : Order::weak;
}

// A thread that reads the same value from the same word again, having stored nothing, is polling.
void note_poll(Thread& t, u64 word, u64 value) {
  bool same = t.poll_pc == t.pc - 1 && t.poll_address == word && t.poll_value == value;
  t.poll_pc = t.pc - 1;
  t.poll_address = word;
  t.poll_value = value;
  t.spinning = same;
  t.stop = t.stop || same;
}

template <class T, bool NonCoherent = false>
void run_load(Thread& t, const Instruction& i) {
  u64 address = t.r[i.a] + i.offset;
  u32 bytes = static_cast<u32>(sizeof(T)) * i.count;
  Location place = locate(t, i.space, address, bytes, Touch::read);
  check_written(t, place, address, bytes);
  if (t.launch->checks.races && place.cells != nullptr) {
    RaceDetector& races = t.launch->races;
    bool fine = NonCoherent ? races.constant_read(t.view(), place.cells, place.at, bytes)
                            : races.weak_read(t.view(), place.cells, place.at, bytes);
    if (!fine) [[unlikely]]
      report_race(t, place, address, Touch::read);
  }
  if (i.list == nullptr) {
    T value;
    std::memcpy(&value, place.bytes, sizeof(T));
    t.r[i.d] = to_slot(value);
    return;
  }
  for (u32 k = 0; k < i.count; ++k) {
    T value;
    std::memcpy(&value, place.bytes + k * sizeof(T), sizeof(T));
    if (i.list[k] != kNoSlot) t.r[i.list[k]] = to_slot(value);
  }
}

template <class T>
void run_store(Thread& t, const Instruction& i) {
  u64 address = t.r[i.a] + i.offset;
  u32 bytes = static_cast<u32>(sizeof(T)) * i.count;
  Location place = locate(t, i.space, address, bytes, Touch::write);
  if (t.launch->checks.races && place.cells != nullptr &&
      !t.launch->races.weak_write(t.view(), place.cells, place.at, bytes)) [[unlikely]] {
    report_race(t, place, address, Touch::write);
  }
  note_written(t, place, bytes);
  for (u32 k = 0; k < i.count; ++k) {
    T value = static_cast<T>(t.r[i.list == nullptr ? i.b : i.list[k]]);
    std::memcpy(place.bytes + k * sizeof(T), &value, sizeof(T));
  }
}

void check_strong(Thread& t, const Instruction& i, const Location& place, u64 address, u32 bytes,
                  Touch touch) {
  if (!t.launch->checks.races || place.cells == nullptr) return;
  if (!t.launch->races.strong(t.view(), place.cells, place.at, bytes, touch != Touch::write,
                              touch != Touch::read, {i.scope, static_cast<u8>(i.width)})) {
    report_race(t, place, address, touch);
  }
}

// A strong load learns before its own access is judged: with acquire it is ordered after what the
// word's writer had done.
template <class T>
void run_strong_load(Thread& t, const Instruction& i) {
  if (t.launch->hold_back(t)) return;
  t.launch->order_cache(t, i.order, i.scope);
  u64 address = t.r[i.a] + i.offset;
  u32 bytes = static_cast<u32>(sizeof(T)) * i.count;
  Location place = locate(t, i.space, address, bytes, Touch::read);
  check_written(t, place, address, bytes);
  check_strong(t, i, place, address, bytes, Touch::read);
  t.launch->sync.read(t, place.word, i.order, i.scope);
  u64 last = 0;
  for (u32 k = 0; k < i.count; ++k) {
    T value;
    std::memcpy(&value, place.bytes + k * sizeof(T), sizeof(T));
    u32 slot = i.list == nullptr ? i.d : i.list[k];
    last = to_slot(value);
    if (slot != kNoSlot) t.r[slot] = last;
  }
  note_poll(t, place.word, last);
}

template <class T>
void run_strong_store(Thread& t, const Instruction& i) {
  if (t.launch->hold_back(t)) return;
  t.launch->order_cache(t, i.order, i.scope);
  u64 address = t.r[i.a] + i.offset;
  u32 bytes = static_cast<u32>(sizeof(T)) * i.count;
  Location place = locate(t, i.space, address, bytes, Touch::write);
  check_strong(t, i, place, address, bytes, Touch::write);
  note_written(t, place, bytes);
  t.launch->sync.write(t, place.word, i.order, i.scope, false);
  for (u32 k = 0; k < i.count; ++k) {
    T value = static_cast<T>(t.r[i.list == nullptr ? i.b : i.list[k]]);
    std::memcpy(place.bytes + k * sizeof(T), &value, sizeof(T));
  }
}

enum class AtomicOp : u8 { add, inc, dec, exch, cas, min, max, bit_and, bit_or, bit_xor };

template <AtomicOp O, class T>
T updated(T old, T b, T c) {
  switch (O) {
    case AtomicOp::add:
      return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) +
                            static_cast<std::make_unsigned_t<T>>(b));
    case AtomicOp::inc:
      return old >= b ? T{0} : static_cast<T>(old + 1);
    case AtomicOp::dec:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
    case AtomicOp::exch:
      return b;
    case AtomicOp::cas:
      return old == b ? c : old;
    case AtomicOp::min:
      return b < old ? b : old;
    case AtomicOp::max:
      return old < b ? b : old;
    case AtomicOp::bit_and:
      return old & b;
    case AtomicOp::bit_or:
      return old | b;
    case AtomicOp::bit_xor:
      return old ^ b;
  }
  return old;
}

template <AtomicOp O, class T>
void run_atomic(Thread& t, const Instruction& i) {
  if (t.launch->hold_back(t)) return;
  t.launch->order_cache(t, i.order, i.scope);
  u64 address = t.r[i.a] + i.offset;
  Location place = locate(t, i.space, address, sizeof(T), Touch::both);
  if (place.cells == nullptr) fail(t, ErrorKind::bad_operand, "an atomic on private memory");
  check_written(t, place, address, sizeof(T));
  check_strong(t, i, place, address, sizeof(T), Touch::both);
  t.launch->sync.read(t, place.word, i.order, i.scope);
  note_written(t, place, sizeof(T));
  t.launch->sync.write(t, place.word, i.order, i.scope, true);
  ++t.launch->counters.atomics;
  T old;
  std::memcpy(&old, place.bytes, sizeof(T));
  T third = i.c == kNoSlot ? T{0} : static_cast<T>(t.r[i.c]);
  T next = updated<O>(old, static_cast<T>(t.r[i.b]), third);
  std::memcpy(place.bytes, &next, sizeof(T));
  if (i.d != kNoSlot) t.r[i.d] = to_slot(old);
}

template <AtomicOp O>
Run atomic_of(Type type) {
  if (holds<u32>(type)) return &run_atomic<O, u32>;
  if (holds<u64>(type)) return &run_atomic<O, u64>;
  if (holds<s32>(type)) return &run_atomic<O, s32>;
  if (holds<s64>(type)) return &run_atomic<O, s64>;
  return nullptr;
}

template <Scope S>
void run_fence(Thread& t, const Instruction&) {
  t.launch->order_cache(t, Order::acq_rel, S);
  t.launch->sync.fence(t, S);
}

void run_add_offset(Thread& t, const Instruction& i) { t.r[i.d] = t.r[i.a] + i.offset; }
PTX_EACH_LEVEL bool run_add_offset_lanes(Lanes& lanes, const Instruction& i) {
  const u64* a = lanes.row<u64>(i.a);
  PTX_SET_LANES(u64, lanes.row<u64>(i.d), lanes, a[k] + i.offset)
  return true;
}

void run_is_space(Thread& t, const Instruction& i) {
  u64 address = t.r[i.a];
  Space space = resolve_generic(address);
  if (space == Space::global) {
    const Allocation* a = t.launch->memory.find(address);
    if (a != nullptr && a->read_only) space = Space::constant;
  }
  t.r[i.d] = space == i.space ? 1 : 0;
}

bool may_prefetch(const Thread& t, u64 address) {
  const Allocation* a = t.launch->memory.reach(address);
  return a != nullptr && address >= a->base && address - a->base < a->size;
}
// A device ignores a prefetch outside of its memory. No kernel has a reason for one.
void run_prefetch(Thread& t, const Instruction& i) {
  u64 address = t.r[i.a] + i.offset;
  if (!may_prefetch(t, address)) out_of_bounds(t, Space::global, address, 1, Touch::read);
  ++t.launch->counters.prefetches;
}
bool run_prefetch_lanes(Lanes& lanes, const Instruction& i) {
  const u64* a = lanes.row<u64>(i.a);
  Thread* threads = lanes.warp->lanes;
  bool all = true;
  lanes.each([&](u32 k) { all = all && may_prefetch(threads[k], a[k] + i.offset); });
  if (all) lanes.each([&](u32 k) { ++threads[k].launch->counters.prefetches; });
  return all;
}

void run_nothing(Thread&, const Instruction&) {}
bool run_nothing_lanes(Lanes&, const Instruction&) { return true; }

Run constant_load(u32 width, bool extends) {
  switch (width) {
    case 1:
      return extends ? &run_load<s8, true> : &run_load<u8, true>;
    case 2:
      return extends ? &run_load<s16, true> : &run_load<u16, true>;
    case 4:
      return extends ? &run_load<s32, true> : &run_load<u32, true>;
    default:
      return &run_load<u64, true>;
  }
}

}  // namespace

Run load(const Form& form, Instruction& i) {
  set_access(form, i);
  bool weak = i.order == Order::weak;
  bool extends = info(form.type).kind == Kind::signed_int;
  if (weak) i.run_lanes = weak_load_lanes(i.width, extends, form.has("nc"));
  i.lane_bytes[1] = 8;  // the address
  if (form.has("nc")) return constant_load(i.width, extends);
  switch (i.width) {
    case 1:
      return extends ? (weak ? &run_load<s8> : &run_strong_load<s8>)
                     : (weak ? &run_load<u8> : &run_strong_load<u8>);
    case 2:
      return extends ? (weak ? &run_load<s16> : &run_strong_load<s16>)
                     : (weak ? &run_load<u16> : &run_strong_load<u16>);
    case 4:
      return extends ? (weak ? &run_load<s32> : &run_strong_load<s32>)
                     : (weak ? &run_load<u32> : &run_strong_load<u32>);
    default:
      return weak ? &run_load<u64> : &run_strong_load<u64>;
  }
}

Run store(const Form& form, Instruction& i) {
  set_access(form, i);
  bool weak = i.order == Order::weak;
  if (weak) i.run_lanes = weak_store_lanes(i.width);
  i.lane_bytes[1] = 8;  // the address
  switch (i.width) {
    case 1:
      return weak ? &run_store<u8> : &run_strong_store<u8>;
    case 2:
      return weak ? &run_store<u16> : &run_strong_store<u16>;
    case 4:
      return weak ? &run_store<u32> : &run_strong_store<u32>;
    default:
      return weak ? &run_store<u64> : &run_strong_store<u64>;
  }
}

Run atomic(const Form& form, Instruction& i) {
  set_access(form, i);
  if (i.order == Order::weak) i.order = Order::relaxed;
  if (form.has("add")) return atomic_of<AtomicOp::add>(form.type);
  if (form.has("inc")) return atomic_of<AtomicOp::inc>(form.type);
  if (form.has("dec")) return atomic_of<AtomicOp::dec>(form.type);
  if (form.has("exch")) return atomic_of<AtomicOp::exch>(form.type);
  if (form.has("cas")) return atomic_of<AtomicOp::cas>(form.type);
  if (form.has("min")) return atomic_of<AtomicOp::min>(form.type);
  if (form.has("max")) return atomic_of<AtomicOp::max>(form.type);
  if (form.has("and")) return atomic_of<AtomicOp::bit_and>(form.type);
  if (form.has("or")) return atomic_of<AtomicOp::bit_or>(form.type);
  return atomic_of<AtomicOp::bit_xor>(form.type);
}

namespace {

Run add_offset(Instruction& i, u64 offset) {
  i.offset = offset;
  i.run_lanes = &run_add_offset_lanes;
  i.lane_bytes = {8, 8};
  return &run_add_offset;
}

}  // namespace

Run convert_address(const Form& form, Instruction& i) {
  return add_offset(i, window_of(space_of(form)));
}
Run convert_address_to(const Form& form, Instruction& i) {
  return add_offset(i, 0 - window_of(space_of(form)));
}
Run is_space(const Form& form, Instruction& i) {
  i.space = space_of(form);
  return &run_is_space;
}
Run fence(const Form& form, Instruction&) {
  return form.has("cta")   ? &run_fence<Scope::cta>
         : form.has("sys") ? &run_fence<Scope::sys>
                           : &run_fence<Scope::gpu>;
}
Run prefetch(const Form&, Instruction& i) {
  i.run_lanes = &run_prefetch_lanes;
  i.lane_bytes[1] = 8;  // the address
  return &run_prefetch;
}
Run no_operation(const Form&, Instruction& i) {
  i.run_lanes = &run_nothing_lanes;
  return &run_nothing;
}

}  // namespace ptx
