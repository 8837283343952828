// Locates the bytes of an access and checks it: space, bounds, alignment, state, races.
#pragma once

#include <cstring>

#include "tools/ptx_machine/address.hpp"
#include "tools/ptx_machine/launch.hpp"

namespace ptx {

struct Location {
  std::byte* bytes = nullptr;
  u8* state = nullptr;
  Cell* cells = nullptr;  // nullptr if no other thread can see this memory
  u64 at = 0;             // offset of `bytes` from cells[0]
  u64 word = 0;           // identifies the location among all spaces
  Space space = Space::global;
};

enum class Touch : u8 { read, write, both };

[[noreturn]] void out_of_bounds(Thread& t, Space space, u64 address, u32 bytes, Touch touch);
[[noreturn]] void misaligned(Thread& t, u64 address, u32 bytes);
[[noreturn]] void uninitialised(Thread& t, const Location& place, u64 address, u32 bytes);
[[noreturn]] void report_race(Thread& t, const Location& place, u64 address, Touch touch);

// All `bytes` state bytes have `bit`; here and below, bytes is 1, 2, 4 or a multiple of 8.
inline bool all_have(const u8* state, u32 bytes, u8 bit) {
  u64 pattern = 0x0101'0101'0101'0101u * bit;
  if (bytes < 8) {
    u64 all = 0;
    std::memcpy(&all, state, bytes);
    pattern &= (u64{1} << (8 * bytes)) - 1;
    return (all & pattern) == pattern;
  }
  for (u32 k = 0; k < bytes; k += 8) {
    u64 all;
    std::memcpy(&all, state + k, 8);
    if ((all & pattern) != pattern) return false;
  }
  return true;
}
inline bool any_has(const u8* state, u32 bytes, u8 bit) {
  u64 any = 0;
  if (bytes < 8) {
    std::memcpy(&any, state, bytes);
  } else {
    for (u32 k = 0; k < bytes; k += 8) {
      u64 eight;
      std::memcpy(&eight, state + k, 8);
      any |= eight;
    }
  }
  return (any & (0x0101'0101'0101'0101u * bit)) != 0;
}

inline Location locate(Thread& t, Space space, u64 address, u32 bytes, Touch touch) {
  if ((address & (bytes - 1)) != 0) misaligned(t, address, bytes);
  u64 in_space = address;
  if (space == Space::generic) space = resolve_generic(in_space);
  Location place{.space = space};
  switch (space) {
    case Space::shared: {
      Block& block = *t.block;
      if (in_space + bytes > block.shared.size() || in_space > block.shared.size() ||
          any_has(block.shared_state.data() + in_space, bytes, kGap)) {
        out_of_bounds(t, space, in_space, bytes, touch);
      }
      place.bytes = block.shared.data() + in_space;
      place.state = block.shared_state.data() + in_space;
      place.cells = block.shared_cells.data();
      place.at = in_space;
      place.word = kSharedWindow | u64{block.index} << 32 | in_space;
      return place;
    }
    case Space::local:
      if (in_space + bytes > t.launch->kernel.local_bytes || in_space + bytes < in_space) {
        out_of_bounds(t, space, in_space, bytes, touch);
      }
      place.bytes = t.local + in_space;
      place.state = t.local_state + in_space;
      return place;
    case Space::param:
      if (in_space + bytes > t.launch->params.size() || in_space + bytes < in_space) {
        out_of_bounds(t, space, in_space, bytes, touch);
      }
      if (touch != Touch::read) {
        fail(t, ErrorKind::read_only, "a store to the kernel's parameters");
      }
      place.bytes = t.launch->params.data() + in_space;
      return place;
    default:
      break;
  }
  Allocation* a = t.launch->memory.reach(in_space);
  u64 offset = a != nullptr ? in_space - a->base : 0;
  if (a == nullptr || offset >= a->size || a->size - offset < bytes) {
    out_of_bounds(t, space, in_space, bytes, touch);
  }
  if (a->read_only != (space == Space::constant) || (a->read_only && touch != Touch::read)) {
    if (touch != Touch::read) fail(t, ErrorKind::read_only, "a store to " + a->name);
    if (space == Space::constant) out_of_bounds(t, space, in_space, bytes, touch);
  }
  if (touch != Touch::write) t.launch->counters.global_bytes_read += bytes;
  if (touch != Touch::read) t.launch->counters.global_bytes_written += bytes;
  if (a->watched) t.stop = t.launch->host_due = true;
  place.bytes = a->region.bytes + offset;
  place.state = a->region.state + offset;
  if (t.launch->caches != nullptr && !a->read_only) [[unlikely]] {
    Region own = t.launch->caches->access(t.block->index, *a, in_space, bytes, touch != Touch::read,
                                          touch == Touch::both);
    place.bytes = own.bytes;
    place.state = own.state;
  }
  place.cells = a->region.cells;
  place.at = offset + a->lead;
  place.word = in_space;
  return place;
}

inline void check_written(Thread& t, const Location& place, u64 address, u32 bytes) {
  if (t.launch->checks.uninitialised && place.state != nullptr &&
      !all_have(place.state, bytes, kWritten)) [[unlikely]] {
    uninitialised(t, place, address, bytes);
  }
}

inline void note_written(Thread& t, const Location& place, u32 bytes) {
  std::memset(place.state, kWritten, bytes);
  ++t.launch->stores;
  t.poll_pc = ~u32{0};
}

}  // namespace ptx
