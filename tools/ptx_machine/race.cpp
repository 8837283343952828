// The slow paths of the race check: histories, split words, strong accesses.
#include "tools/ptx_machine/race.hpp"

namespace ptx {

u32 RaceDetector::begin_launch() {
  launch_start_ = latest_ + 1;
  latest_ = launch_start_;
  histories_.clear();
  free_histories_.clear();
  splits_.clear();
  constants_.clear();
  return launch_start_;
}

bool RaceDetector::strong(const View& view, Cell* cells, u64 first, u32 bytes, bool reads,
                          bool writes, Strength how) {
  if (writes && !constants_.empty() && !not_constant(cells, first, bytes)) return false;
  Cell* cell = cells + (first >> 2);
  u32 skip = static_cast<u32>(first & 3);
  while (bytes > 0) {
    u32 here = std::min(bytes, 4 - skip);
    u32 mask = ((1u << here) - 1) << skip;
    if (reads && !slow(view, *cell, mask, Access::strong_read, how)) return false;
    if (writes && !slow(view, *cell, mask, Access::strong_write, how)) return false;
    bytes -= here;
    skip = 0;
    ++cell;
  }
  return true;
}

bool RaceDetector::host_read(const View& view, Cell* cells, u64 first, u32 bytes) {
  return over<Weak::host_read>(view, cells, first, bytes);
}

bool RaceDetector::host_cell(const View& view, Cell& cell, u32 mask) {
  forget_old(cell);
  auto look = [&](const Cell& c) {
    if (!ordered(view, c.write)) return conflict("write", id_of(c.write), c.write_pc);
    if ((static_cast<u32>(c.read) & kHistory) == 0) return true;
    for (const Entry& e : histories_[id_of(c.read)].strong_writes) {
      bool strong = e.how == Strength{Scope::sys, 8};
      if (!strong && !ordered(view, e)) return conflict("atomic write", e.id(), e.pc);
    }
    return true;
  };
  if ((static_cast<u32>(cell.write) & kSplit) == 0) return look(cell);
  for (u32 byte = 0; byte < 4; ++byte) {
    if ((mask >> byte & 1u) == 0) continue;
    Cell& sub = splits_[id_of(cell.write) * 4 + byte];
    forget_old(sub);
    if (!look(sub)) return false;
  }
  return true;
}

bool RaceDetector::constant_read(const View& view, Cell* cells, u64 first, u32 bytes) {
  return over<Weak::constant_read>(view, cells, first, bytes);
}

bool RaceDetector::constant_cell(const View& view, Cell& cell, u32 mask) {
  forget_old(cell);
  auto written = [&](const Cell& c) {
    if (c.write != 0) return conflict("write", id_of(c.write), c.write_pc, true);
    if ((static_cast<u32>(c.read) & kHistory) == 0) return true;
    const auto& writes = histories_[id_of(c.read)].strong_writes;
    return writes.empty() || conflict("atomic write", writes[0].id(), writes[0].pc, true);
  };
  if ((static_cast<u32>(cell.write) & kSplit) == 0) {
    if ((mask_of(cell.write) & mask) != 0 || cell.write == 0) {
      if (!written(cell)) return false;
    }
  } else {
    for (u32 byte = 0; byte < 4; ++byte) {
      if ((mask >> byte & 1u) == 0) continue;
      Cell& sub = splits_[id_of(cell.write) * 4 + byte];
      forget_old(sub);
      if (!written(sub)) return false;
    }
  }
  Constant& constant = constants_[&cell];
  constant = {constant.mask | mask, view.id(), view.pc};
  return true;
}

bool RaceDetector::not_constant(Cell* cells, u64 first, u32 bytes) {
  const u64 end = first + bytes;
  for (u64 word = first & ~u64{3}; word < end; word += 4) {
    auto found = constants_.find(cells + (word >> 2));
    if (found == constants_.end()) continue;
    // The bytes of the word that the access covers.
    u32 skip = static_cast<u32>(std::max(first, word) - word);
    u32 covered = static_cast<u32>(std::min(end, word + 4) - word);
    u32 mask = ((1u << covered) - 1) & ~((1u << skip) - 1);
    if ((found->second.mask & mask) == 0) continue;
    return conflict("non-coherent read", found->second.id, found->second.pc, true);
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

bool RaceDetector::slow(const View& view, Cell& cell, u32 mask, Access access, Strength how) {
  forget_old(cell);
  if ((static_cast<u32>(cell.write) & kSplit) == 0) {
    u32 read_mask = (static_cast<u32>(cell.read) & kHistory) != 0
                        ? histories_[id_of(cell.read)].mask
                        : mask_of(cell.read);
    bool same_write = cell.write == 0 || mask_of(cell.write) == mask;
    bool same_read = cell.read == 0 || read_mask == mask;
    if (same_write && same_read) return slow_whole(view, cell, mask, access, how);
    split(view, cell);
  }
  u32 base = id_of(cell.write) * 4;
  for (u32 byte = 0; byte < 4; ++byte) {
    if ((mask >> byte & 1u) == 0) continue;
    // A copy, because histories and splits may move while the cell is read.
    Cell sub = splits_[base + byte];
    bool fine = slow_whole(view, sub, 1, access, how);
    splits_[base + byte] = sub;
    if (!fine) return false;
  }
  return true;
}

bool RaceDetector::slow_whole(const View& view, Cell& cell, u32 mask, Access access, Strength how) {
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
      history.latest = add(history.weak_reads, view, how);
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
      if (!strong_ordered(view, history.strong_writes, how, "atomic write")) return false;
      add(history.strong_reads, view, how);
      return true;
    case Access::strong_write:
      if (!all_ordered(view, history.weak_reads, "read") ||
          !strong_ordered(view, history.strong_reads, how, "atomic read") ||
          !strong_ordered(view, history.strong_writes, how, "atomic write")) {
        return false;
      }
      // An earlier ordered access of the same strength may go: whatever conflicts with it conflicts
      // with this access too.
      std::erase_if(history.strong_writes,
                    [&](const Entry& e) { return e.how == how && ordered(view, e); });
      add(history.strong_writes, view, how);
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
    history.weak_reads.push_back({id_of(cell.read) & ~31u,
                                  1u << (id_of(cell.read) & 31u),
                                  time_of(cell.read),
                                  cell.read_pc,
                                  {}});
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

bool RaceDetector::strong_ordered(const View& view, const std::vector<Entry>& entries, Strength how,
                                  const char* what) {
  for (const Entry& e : entries) {
    bool wide = e.how.scope != Scope::cta && how.scope != Scope::cta;
    bool same_block = block_of(e.warp) == block_of(view.id());
    if (e.how.width == how.width && (wide || same_block)) continue;
    if (!ordered(view, e)) return conflict(what, e.id(), e.pc);
  }
  return true;
}

u32 RaceDetector::add(std::vector<Entry>& entries, const View& view, Strength how) {
  u32 warp = view.id() & ~31u;
  u32 lane = 1u << (view.id() & 31u);
  u32 time = time_of(view.epoch);
  // An earlier access of the warp that is ordered before this one may go: whoever is unordered with
  // it is unordered with this one too.
  for (std::size_t k = 0; k < entries.size(); ++k) {
    Entry& e = entries[k];
    if (e.warp != warp || e.how != how) continue;
    if (e.time == time) {
      e.lanes |= lane;
      e.pc = view.pc;
      return static_cast<u32>(k);
    }
    if (ordered(view, e)) {
      e = {warp, lane, time, view.pc, how};
      return static_cast<u32>(k);
    }
  }
  entries.push_back({warp, lane, time, view.pc, how});
  return static_cast<u32>(entries.size() - 1);
}

bool RaceDetector::conflict(const char* what, u32 id, u32 pc, bool constant) {
  conflict_ = {what, id, pc, constant};
  return false;
}

}  // namespace ptx
