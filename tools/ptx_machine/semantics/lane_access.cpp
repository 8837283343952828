// Weak loads and stores by the lanes of a warp at once, with the checks that a thread's have. Where
// anything is out of the ordinary nothing is done, and the lanes go one by one. Knows places and races.
#include "tools/ptx_machine/semantics/lane_access.hpp"

#include <optional>

#include "tools/ptx_machine/lanes.hpp"
#include "tools/ptx_machine/semantics/place.hpp"

namespace ptx {
namespace {

// Whether lane k's address is the first one's plus k times `bytes`.
PTX_EACH_LEVEL bool is_run(const u64* addresses, u32 bytes) {
  u64 differs = 0;
  for (u32 k = 0; k < kLanes; ++k) differs |= addresses[k] - addresses[0] - u64{k} * bytes;
  return differs == 0;
}

// The place of the run of bytes that all lanes access, each its own part. Returns nothing if they
// access anything else, or if an access needs a closer look.
std::optional<Location> find_run(const Lanes& lanes, const Instruction& i, u32 bytes, bool writes) {
  const u64* addresses = lanes.row<u64>(i.a);
  if (!lanes.all() || !is_run(addresses, bytes)) return std::nullopt;
  Launch& launch = *lanes.warp->lanes[0].launch;
  u64 at = addresses[0] + i.offset;
  u64 whole = u64{bytes} * kLanes;
  Space space = i.space;
  if (space == Space::generic) space = resolve_generic(at);
  Location place{.space = space};
  if ((at & (bytes - 1)) != 0 || launch.caches != nullptr) return std::nullopt;
  if (space == Space::global) {
    const Allocation* a = launch.memory.reach(at);
    u64 offset = a != nullptr ? at - a->base : 0;
    if (a == nullptr || a->read_only || a->watched || offset >= a->size ||
        a->size - offset < whole) {
      return std::nullopt;
    }
    place.bytes = a->region.bytes + offset;
    place.state = a->region.state + offset;
    place.cells = a->region.cells;
    place.at = offset + a->lead;
  } else if (space == Space::shared) {
    Block& block = *lanes.warp->block;
    if (at > block.shared.size() || block.shared.size() - at < whole) return std::nullopt;
    place.bytes = block.shared.data() + at;
    place.state = block.shared_state.data() + at;
    place.cells = block.shared_cells.data();
    place.at = at;
    if (any_has(place.state, static_cast<u32>(whole), kGap)) return std::nullopt;
  } else {
    return std::nullopt;
  }
  bool was_written = writes || !launch.checks.uninitialised ||
                     all_have(place.state, static_cast<u32>(whole), kWritten);
  if (!was_written) return std::nullopt;
  if (space == Space::global) {
    (writes ? launch.counters.global_bytes_written : launch.counters.global_bytes_read) += whole;
  }
  return place;
}

// The part of a run that begins `skip` bytes after its beginning.
Location part_of(const Location& run, u64 skip) {
  Location part = run;
  part.bytes += skip;
  part.state += skip;
  part.at += skip;
  return part;
}

// Finds what the lanes access; false if some of them may not. Nothing is stored or counted by then.
class Places {
 public:
  Places(const Lanes& lanes, const Instruction& i, u32 bytes, bool writes)
      : lanes_(lanes),
        launch_(*lanes.warp->lanes[0].launch),
        i_(i),
        bytes_(bytes),
        writes_(writes) {}

  bool find() {
    for (u32 rest = lanes_.bits; rest != 0; rest &= rest - 1) {
      auto k = static_cast<u32>(std::countr_zero(rest));
      u64 at = address(k);
      if ((at & (bytes_ - 1)) != 0 || !find(k, at)) return false;
    }
    (writes_ ? launch_.counters.global_bytes_written : launch_.counters.global_bytes_read) +=
        bytes_in_global_;
    return true;
  }

  u64 address(u32 k) const { return lanes_.row<u64>(i_.a)[k] + i_.offset; }
  const Location& operator[](u32 k) const { return places_[k]; }

 private:
  bool find(u32 k, u64 at) {
    Space space = i_.space;
    if (space == Space::generic) space = resolve_generic(at);
    places_[k].space = space;
    switch (space) {
      case Space::global:
        return in_global(places_[k], at);
      case Space::shared:
        return in_shared(places_[k], at);
      case Space::local:
        return in_local(places_[k], lanes_.warp->lanes[k], at);
      case Space::param:
        return !writes_ && in_params(places_[k], at);
      case Space::generic:
      case Space::constant:
        break;
    }
    return false;
  }

  bool was_written(const u8* state) const {
    return writes_ || !launch_.checks.uninitialised || all_have(state, bytes_, kWritten);
  }

  bool in_global(Location& place, u64 at) {
    u64 offset = allocation_ != nullptr ? at - allocation_->base : ~u64{0};
    if (allocation_ == nullptr || offset >= allocation_->size) {
      allocation_ = launch_.memory.reach(at);
      if (allocation_ == nullptr || allocation_->read_only || allocation_->watched) return false;
      offset = at - allocation_->base;
    }
    Allocation& a = *allocation_;
    if (offset >= a.size || a.size - offset < bytes_) return false;
    place.bytes = a.region.bytes + offset;
    place.state = a.region.state + offset;
    place.cells = a.region.cells;
    place.at = offset + a.lead;
    bytes_in_global_ += bytes_;
    if (launch_.caches != nullptr) {
      // A lane's store may become visible as soon as the next lane is processed.
      if (writes_) return false;
      Region own = launch_.caches->access(lanes_.warp->block->index, a, at, bytes_, false, false);
      place.bytes = own.bytes;
      place.state = own.state;
    }
    return was_written(place.state);
  }

  bool in_shared(Location& place, u64 at) {
    Block& block = *lanes_.warp->block;
    if (at + bytes_ > block.shared.size() || at > block.shared.size()) return false;
    place.bytes = block.shared.data() + at;
    place.state = block.shared_state.data() + at;
    place.cells = block.shared_cells.data();
    place.at = at;
    return !any_has(place.state, bytes_, kGap) && was_written(place.state);
  }

  bool in_local(Location& place, const Thread& t, u64 at) {
    if (at + bytes_ > launch_.kernel.local_bytes || at + bytes_ < at) return false;
    place.bytes = t.local + at;
    place.state = t.local_state + at;
    place.cells = nullptr;
    return was_written(place.state);
  }

  bool in_params(Location& place, u64 at) {
    if (at + bytes_ > launch_.params.size() || at + bytes_ < at) return false;
    place.bytes = launch_.params.data() + at;
    place.cells = nullptr;
    return true;
  }

  const Lanes& lanes_;
  Launch& launch_;
  const Instruction& i_;
  u32 bytes_;
  bool writes_;
  Allocation* allocation_ = nullptr;  // the last lane's
  u64 bytes_in_global_ = 0;
  std::array<Location, kLanes> places_;
};

[[noreturn]] void report(const Lanes& lanes, u32 k, const Instruction& i, const Location& place,
                         Touch touch) {
  Thread& t = lanes.warp->lanes[k];
  t.pc = lanes.pc + 1;
  report_race(t, place, lanes.row<u64>(i.a)[k] + i.offset, touch);
}

u32 slot_of(const Instruction& i, u32 n, u32 single) {
  return i.list == nullptr ? single : i.list[n];
}

// Loads what lane k finds at find_place(k).
template <class T, bool NonCoherent, class FindPlace>
void load_from(const Lanes& lanes, const Instruction& i, u32 bytes, FindPlace find_place) {
  Launch& launch = *lanes.warp->lanes[0].launch;
  if (launch.checks.races) {
    lanes.each([&](u32 k) {
      const Location& p = find_place(k);
      if (p.cells == nullptr) return;
      const Thread& t = lanes.warp->lanes[k];
      View view{t.epoch, t.clock.get(), lanes.pc};
      bool fine = NonCoherent ? launch.races.constant_read(view, p.cells, p.at, bytes)
                              : launch.races.weak_read(view, p.cells, p.at, bytes);
      if (!fine) [[unlikely]]
        report(lanes, k, i, p, Touch::read);
    });
  }
  // All lanes have their addresses: the destination may be the address.
  for (u32 n = 0; n < i.count; ++n) {
    u32 slot = slot_of(i, n, i.d);
    if (slot == kNoSlot) continue;
    auto fill = [&](auto* d) {
      for (u32 rest = lanes.bits; rest != 0; rest &= rest - 1) {
        auto k = static_cast<u32>(std::countr_zero(rest));
        T value;
        std::memcpy(&value, find_place(k).bytes + n * sizeof(T), sizeof(T));
        d[k] = static_cast<std::remove_pointer_t<decltype(d)>>(to_slot(value));
      }
    };
    is_wide(slot) ? fill(lanes.row<u64>(slot)) : fill(lanes.row<u32>(slot));
  }
}

template <class T, bool NonCoherent>
bool load_lanes(Lanes& lanes, const Instruction& i) {
  u32 bytes = static_cast<u32>(sizeof(T)) * i.count;
  if (auto run = find_run(lanes, i, bytes, false)) {
    load_from<T, NonCoherent>(lanes, i, bytes,
                              [&](u32 k) { return part_of(*run, u64{k} * bytes); });
    return true;
  }
  Places places(lanes, i, bytes, false);
  if (!places.find()) return false;
  load_from<T, NonCoherent>(lanes, i, bytes, [&](u32 k) -> const Location& { return places[k]; });
  return true;
}

template <class T, class FindPlace>
void store_to(const Lanes& lanes, const Instruction& i, u32 bytes, FindPlace find_place) {
  Launch& launch = *lanes.warp->lanes[0].launch;
  lanes.each([&](u32 k) {
    Thread& t = lanes.warp->lanes[k];
    const Location& p = find_place(k);
    View view{t.epoch, t.clock.get(), lanes.pc};
    if (launch.checks.races && p.cells != nullptr &&
        !launch.races.weak_write(view, p.cells, p.at, bytes)) [[unlikely]]
      report(lanes, k, i, p, Touch::write);
    note_written(t, p, bytes);
    for (u32 n = 0; n < i.count; ++n) {
      auto value = static_cast<T>(lanes.value(slot_of(i, n, i.b), k));
      std::memcpy(p.bytes + n * sizeof(T), &value, sizeof(T));
    }
  });
}

template <class T>
bool store_lanes(Lanes& lanes, const Instruction& i) {
  u32 bytes = static_cast<u32>(sizeof(T)) * i.count;
  if (auto run = find_run(lanes, i, bytes, true)) {
    store_to<T>(lanes, i, bytes, [&](u32 k) { return part_of(*run, u64{k} * bytes); });
    return true;
  }
  Places places(lanes, i, bytes, true);
  if (!places.find()) return false;
  store_to<T>(lanes, i, bytes, [&](u32 k) -> const Location& { return places[k]; });
  return true;
}

template <class Narrow>
RunLanes load_of(bool extends, bool non_coherent) {
  if (extends) {
    using Signed = std::make_signed_t<Narrow>;
    return non_coherent ? &load_lanes<Signed, true> : &load_lanes<Signed, false>;
  }
  return non_coherent ? &load_lanes<Narrow, true> : &load_lanes<Narrow, false>;
}

}  // namespace

RunLanes weak_load_lanes(u32 width, bool extends, bool non_coherent) {
  switch (width) {
    case 1:
      return load_of<u8>(extends, non_coherent);
    case 2:
      return load_of<u16>(extends, non_coherent);
    case 4:
      return load_of<u32>(extends, non_coherent);
    default:
      return load_of<u64>(false, non_coherent);
  }
}

RunLanes weak_store_lanes(u32 width) {
  switch (width) {
    case 1:
      return &store_lanes<u8>;
    case 2:
      return &store_lanes<u16>;
    case 4:
      return &store_lanes<u32>;
    default:
      return &store_lanes<u64>;
  }
}

}  // namespace ptx
