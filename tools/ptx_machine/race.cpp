// The slow paths of the race check: histories, split words, strong accesses.
#include "tools/ptx_machine/race.hpp"

namespace ptx {

u32 RaceDetector::begin_launch() {
  launch_start_ = latest_ + 1;
  latest_ = launch_start_;
  histories_.clear();
  free_histories_.clear();
  splits_.clear();
  return launch_start_;
}

bool RaceDetector::strong(const View& view, Cell* cells, u64 first, u32 bytes, bool reads,
                          bool writes, Scope scope) {
  Cell* cell = cells + (first >> 2);
  u32 skip = static_cast<u32>(first & 3);
  while (bytes > 0) {
    u32 here = std::min(bytes, 4 - skip);
    u32 mask = ((1u << here) - 1) << skip;
    if (reads && !slow(view, *cell, mask, Access::strong_read, scope)) return false;
    if (writes && !slow(view, *cell, mask, Access::strong_write, scope)) return false;
    bytes -= here;
    skip = 0;
    ++cell;
  }
  return true;
}

bool RaceDetector::ordered(const View& view, const Entry& entry) const {
  if (entry.time <= view.clock->floor[block_of(entry.warp)]) return true;
  for (u32 rest = entry.lanes; rest != 0; rest &= rest - 1) {
    u32 id = entry.warp + static_cast<u32>(std::countr_zero(rest));
    if (id != view.id() && entry.time > view.clock->time_of(id)) return false;
  }
  return true;
}

void RaceDetector::forget_old(Cell& cell) const {
  if (time_of(cell.write) < launch_start_) {
    if ((static_cast<u32>(cell.write) & kSplit) != 0) cell.read = 0;
    cell.write = 0;
  }
  if (time_of(cell.read) < launch_start_) cell.read = 0;
}

bool RaceDetector::slow(const View& view, Cell& cell, u32 mask, Access access, Scope scope) {
  forget_old(cell);
  if ((static_cast<u32>(cell.write) & kSplit) == 0) {
    u32 read_mask = (static_cast<u32>(cell.read) & kHistory) != 0
                        ? histories_[id_of(cell.read)].mask
                        : mask_of(cell.read);
    bool same_write = cell.write == 0 || mask_of(cell.write) == mask;
    bool same_read = cell.read == 0 || read_mask == mask;
    if (same_write && same_read) return slow_whole(view, cell, mask, access, scope);
    split(view, cell);
  }
  u32 base = id_of(cell.write) * 4;
  for (u32 byte = 0; byte < 4; ++byte) {
    if ((mask >> byte & 1u) == 0) continue;
    // A copy: histories and splits may move while the cell is looked at.
    Cell sub = splits_[base + byte];
    bool fine = slow_whole(view, sub, 1, access, scope);
    splits_[base + byte] = sub;
    if (!fine) return false;
  }
  return true;
}

bool RaceDetector::slow_whole(const View& view, Cell& cell, u32 mask, Access access, Scope scope) {
  Epoch mine = view.epoch | (u64{mask} << kByteShift);
  if (!ordered(view, cell.write)) return conflict("write", id_of(cell.write), cell.write_pc);
  bool has_history = (static_cast<u32>(cell.read) & kHistory) != 0;
  if (access == Access::weak_read && !has_history && (cell.read == 0 || ordered(view, cell.read))) {
    cell.read = mine;
    cell.read_pc = view.pc;
    return true;
  }
  if (access == Access::weak_write && !has_history) {
    if (!ordered(view, cell.read)) return conflict("read", id_of(cell.read), cell.read_pc);
    cell = {mine, 0, view.pc, 0};
    return true;
  }
  History& history = history_of(view, cell, mask);
  switch (access) {
    case Access::weak_read:
      if (!all_ordered(view, history.strong_writes, "atomic write")) return false;
      add(history.weak_reads, view, scope);
      return true;
    case Access::weak_write:
      if (!all_ordered(view, history.weak_reads, "read") ||
          !all_ordered(view, history.strong_reads, "atomic read") ||
          !all_ordered(view, history.strong_writes, "atomic write")) {
        return false;
      }
      release_history(cell);
      cell = {mine, 0, view.pc, 0};
      return true;
    case Access::strong_read:
      if (!strong_ordered(view, history.strong_writes, scope, "atomic write")) return false;
      add(history.strong_reads, view, scope);
      return true;
    case Access::strong_write:
      if (!all_ordered(view, history.weak_reads, "read") ||
          !strong_ordered(view, history.strong_reads, scope, "atomic read") ||
          !strong_ordered(view, history.strong_writes, scope, "atomic write")) {
        return false;
      }
      // What conflicts with an ordered earlier one of the same scope conflicts with this one too.
      std::erase_if(history.strong_writes,
                    [&](const Entry& e) { return e.scope == scope && ordered(view, e); });
      add(history.strong_writes, view, scope);
      return true;
  }
  return true;
}

void RaceDetector::split(const View& view, Cell& cell) {
  auto index = static_cast<u32>(splits_.size() / 4);
  for (u32 byte = 0; byte < 4; ++byte) {
    Cell sub;
    if ((mask_of(cell.write) >> byte & 1u) != 0) {
      sub.write = (cell.write & ~(u64{15} << kByteShift)) | (u64{1} << kByteShift);
      sub.write_pc = cell.write_pc;
    }
    if ((static_cast<u32>(cell.read) & kHistory) != 0) {
      if ((histories_[id_of(cell.read)].mask >> byte & 1u) != 0) {
        u32 copy = new_history();
        histories_[copy] = histories_[id_of(cell.read)];
        histories_[copy].mask = 1;
        sub.read = (cell.read & ~u64{kIdMask}) | copy;
      }
    } else if ((mask_of(cell.read) >> byte & 1u) != 0) {
      sub.read = (cell.read & ~(u64{15} << kByteShift)) | (u64{1} << kByteShift);
      sub.read_pc = cell.read_pc;
    }
    splits_.push_back(sub);
  }
  release_history(cell);
  cell = {(view.epoch & ~u64{0xffffffff}) | kSplit | index, 0, 0, 0};
}

RaceDetector::History& RaceDetector::history_of(const View& view, Cell& cell, u32 mask) {
  if ((static_cast<u32>(cell.read) & kHistory) != 0) return histories_[id_of(cell.read)];
  u32 index = new_history();
  History& history = histories_[index];
  history.mask = mask;
  if (cell.read != 0) {
    history.weak_reads.push_back({id_of(cell.read) & ~31u, 1u << (id_of(cell.read) & 31u),
                                  time_of(cell.read), cell.read_pc, Scope::gpu});
  }
  cell.read = (view.epoch & ~u64{0xffffffff}) | kHistory | index;
  return history;
}

u32 RaceDetector::new_history() {
  if (!free_histories_.empty()) {
    u32 index = free_histories_.back();
    free_histories_.pop_back();
    histories_[index] = {};
    return index;
  }
  histories_.emplace_back();
  return static_cast<u32>(histories_.size() - 1);
}

void RaceDetector::release_history(Cell& cell) {
  if ((static_cast<u32>(cell.read) & kHistory) != 0) free_histories_.push_back(id_of(cell.read));
}

bool RaceDetector::all_ordered(const View& view, const std::vector<Entry>& entries,
                               const char* what) {
  for (const Entry& e : entries) {
    if (!ordered(view, e)) return conflict(what, e.id(), e.pc);
  }
  return true;
}

bool RaceDetector::strong_ordered(const View& view, const std::vector<Entry>& entries, Scope scope,
                                  const char* what) {
  for (const Entry& e : entries) {
    bool wide = e.scope == Scope::gpu && scope == Scope::gpu;
    if (wide || block_of(e.warp) == block_of(view.id())) continue;
    if (!ordered(view, e)) return conflict(what, e.id(), e.pc);
  }
  return true;
}

void RaceDetector::add(std::vector<Entry>& entries, const View& view, Scope scope) {
  u32 warp = view.id() & ~31u;
  u32 lane = 1u << (view.id() & 31u);
  u32 time = time_of(view.epoch);
  // Who is unordered with an earlier access of the warp that is ordered before this one is
  // unordered with this one too, so the earlier one may go.
  for (std::size_t k = 0; k < entries.size(); ++k) {
    Entry& e = entries[k];
    if (e.warp != warp || e.scope != scope) continue;
    if (e.time == time) {
      e.lanes |= lane;
      e.pc = view.pc;
      return;
    }
    if (ordered(view, e)) {
      e = {warp, lane, time, view.pc, scope};
      return;
    }
  }
  entries.push_back({warp, lane, time, view.pc, scope});
}

bool RaceDetector::conflict(const char* what, u32 id, u32 pc) {
  conflict_ = {what, id, pc};
  return false;
}

}  // namespace ptx
