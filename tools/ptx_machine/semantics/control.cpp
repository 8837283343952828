// Moves between registers and the flow of one thread; knows nothing of other threads.
#include "tools/ptx_machine/semantics/control.hpp"

#include <fmt/format.h>

#include "tools/ptx_machine/launch.hpp"
#include "tools/ptx_machine/semantics/apply.hpp"
#include "tools/ptx_machine/semantics/integer.hpp"

namespace ptx {
namespace {

u64 move_slot(u64 a) { return a; }

// Parts have at most half of the whole's bits.
template <class T>
PTX_EACH_LEVEL bool run_pack_lanes(Lanes& lanes, const Instruction& i) {
  T part = (T{1} << i.width) - 1;
  alignas(64) T packed[kLanes] = {};
  for (u32 n = 0; n < i.count; ++n) {
    const u32* a = lanes.row<u32>(i.list[n]);
    u32 shift = n * i.width;
    for (u32 k = 0; k < kLanes; ++k) packed[k] |= (a[k] & part) << shift;
  }
  PTX_SET_LANES(T, lanes.row<T>(i.d), lanes, packed[k])
  return true;
}

template <class T>
PTX_EACH_LEVEL bool run_unpack_lanes(Lanes& lanes, const Instruction& i) {
  T part = (T{1} << i.width) - 1;
  alignas(64) T value[kLanes];
  std::copy_n(lanes.row<T>(i.a), kLanes, value);
  for (u32 n = 0; n < i.count; ++n) {
    if (i.list[n] == kNoSlot) continue;
    u32* d = lanes.row<u32>(i.list[n]);
    u32 shift = n * i.width;
    PTX_SET_LANES(u32, d, lanes, value[k] >> shift & part)
  }
  return true;
}

void run_pack(Thread& t, const Instruction& i) {
  u64 out = 0;
  u64 mask = (u64{1} << i.width) - 1;
  for (u32 k = 0; k < i.count; ++k) out |= (t.r[i.list[k]] & mask) << (k * i.width);
  t.r[i.d] = out;
}

void run_unpack(Thread& t, const Instruction& i) {
  u64 value = t.r[i.a];
  u64 mask = (u64{1} << i.width) - 1;
  for (u32 k = 0; k < i.count; ++k) {
    if (i.list[k] != kNoSlot) t.r[i.list[k]] = value >> (k * i.width) & mask;
  }
}

void run_read_clock(Thread& t, const Instruction& i) {
  t.r[i.d] = t.launch->counters.instructions + t.launch->counters.turns;
}

u64 logic3_slot(u64 a, u64 b, u64 c, u64 table) {
  return Logic3::of(static_cast<u32>(a), static_cast<u32>(b), static_cast<u32>(c),
                    static_cast<u32>(table));
}

template <class T>
u64 insert_field_slot(u64 a, u64 b, u64 position, u64 length) {
  return InsertField::of(static_cast<T>(a), static_cast<T>(b), static_cast<u32>(position),
                         static_cast<u32>(length));
}

void run_branch(Thread& t, const Instruction& i) { t.pc = static_cast<u32>(i.offset); }

void run_indexed_branch(Thread& t, const Instruction& i) {
  auto index = static_cast<u32>(t.r[i.a]);
  if (index >= i.count) {
    fail(t, ErrorKind::bad_operand,
         fmt::format("index {} into a table of {} branch targets", index, i.count));
  }
  t.pc = i.list[index];
}

void run_leave(Thread& t, const Instruction&) { t.launch->exit_thread(t); }

void run_trap(Thread& t, const Instruction&) { fail(t, ErrorKind::trap, "the kernel trapped"); }

}  // namespace

void run_watched(Thread& t, const Instruction& i) {
  const Watch& w = t.launch->kernel.watches[t.pc - 1];
  auto check = [&](const std::vector<u32>& flags) {
    for (u32 flag : flags) {
      if (t.r[flag] != 0 || !t.launch->checks.uninitialised) continue;
      fail(t, ErrorKind::uninitialised, "reads a register that nothing wrote");
    }
  };
  check(w.guard);
  if (w.guarded && ((t.r[i.guard] & 1) != 0) != i.guard_value) return;
  u64 written = 1;
  if (w.moves) {
    if (!w.reads.empty()) written = t.r[w.reads[0]];
  } else {
    check(w.reads);
  }
  for (u32 flag : w.writes) t.r[flag] = written;
  w.run(t, i);
}

Run move(const Form& form, Instruction& i) {
  return bytes_of(form.type) == 8 ? run_of<&move_slot, u64, u64>(i)
                                  : run_of<&move_slot, u32, u32>(i);
}

// `width` is the bits of one part; the decoder has set `count`.
Run pack(const Form& form, Instruction& i) {
  u32 bytes = bytes_of(form.type);
  i.run_lanes = bytes == 8 ? &run_pack_lanes<u64> : &run_pack_lanes<u32>;
  i.lane_bytes[0] = static_cast<u8>(bytes);
  i.width = 8 * bytes / i.count;
  return i.width < 64 && i.width * i.count == 8 * bytes_of(form.type) ? &run_pack : nullptr;
}
Run unpack(const Form& form, Instruction& i) {
  u32 bytes = bytes_of(form.type);
  i.run_lanes = bytes == 8 ? &run_unpack_lanes<u64> : &run_unpack_lanes<u32>;
  i.lane_bytes[1] = static_cast<u8>(bytes);
  i.width = 8 * bytes / i.count;
  return i.width < 64 && i.width * i.count == 8 * bytes_of(form.type) ? &run_unpack : nullptr;
}
Run read_clock(const Form&, Instruction&) { return &run_read_clock; }
Run logic3(const Form&, Instruction& i) { return run_of<&logic3_slot, u32, u32>(i); }
Run insert_field(const Form& form, Instruction& i) {
  return form.type == Type::b32 ? run_of<&insert_field_slot<u32>, u32, u32>(i)
                                : run_of<&insert_field_slot<u64>, u64, u64, u64, u32, u32>(i);
}
Run branch(const Form&, Instruction& i) {
  i.branches = true;
  return &run_branch;
}
Run indexed_branch(const Form&, Instruction&) { return &run_indexed_branch; }
Run leave(const Form&, Instruction&) { return &run_leave; }
Run trap(const Form&, Instruction&) { return &run_trap; }

}  // namespace ptx
