// The race check: the last read and write of each word, and whether the next access is ordered
// after them.
//
// FastTrack's idea on 4-byte cells: an access keeps the last write and the last read as epochs
// (thread, time). A word read by several unordered threads, or accessed by strong operations, gets
// a history; a word whose bytes are accessed apart is split into byte cells.
#pragma once

#include <bit>
#include <unordered_map>
#include <vector>

#include "tools/ptx_machine/clock.hpp"

namespace ptx {

// An epoch: time in the upper half; tag, byte mask and thread in the lower. All zero: never.
using Epoch = u64;

struct Cell {
  Epoch write = 0;
  Epoch read = 0;
  u32 write_pc = 0;
  u32 read_pc = 0;
};

enum class Scope : u8 { cta, gpu, sys };

// Strong operations do not race if each one's scope includes the other's thread and they overlap
// completely. A vector counts as separate accesses of `width` bytes.
struct Strength {
  Scope scope = Scope::gpu;
  u8 width = 0;
  bool operator==(const Strength&) const = default;
};

// A thread's view of the others.
struct View {
  Epoch epoch;  // (own time, own id)
  const Clock* clock;
  u32 pc;

  u32 id() const { return static_cast<u32>(epoch) & ((1u << 26) - 1); }
};

struct Conflict {
  const char* what = "";  // "write", "read", "atomic write", "atomic read"
  u32 id = 0;
  u32 pc = 0;
  bool constant = false;  // one of the two is ld.global.nc
};

class RaceDetector {
 public:
  // Orders everything so far before the launch that starts. Returns the threads' first time.
  u32 begin_launch();
  void saw_time(u32 time) { latest_ = std::max(latest_, time); }
  u32 launch_start() const { return launch_start_; }

  // Each returns false after a conflict, which conflict() then describes. `first` is the byte's
  // offset from cells[0].
  bool weak_read(const View& view, Cell* cells, u64 first, u32 bytes) {
    return over<Weak::read>(view, cells, first, bytes);
  }
  // ld.global.nc: no thread may write the word during the launch, before or after.
  bool constant_read(const View& view, Cell* cells, u64 first, u32 bytes);
  // The host's read, which checks the last write. The host waits for no thread and no thread waits
  // for it.
  static constexpr u32 kHostId = (1u << 26) - 1;
  bool host_read(const View& view, Cell* cells, u64 first, u32 bytes);
  bool weak_write(const View& view, Cell* cells, u64 first, u32 bytes) {
    if (!constants_.empty() && !not_constant(cells, first, bytes)) [[unlikely]]
      return false;
    return over<Weak::write>(view, cells, first, bytes);
  }
  bool strong(const View& view, Cell* cells, u64 first, u32 bytes, bool reads, bool writes,
              Strength how);

  const Conflict& conflict() const { return conflict_; }

 private:
  enum class Access : u8 { weak_read, weak_write, strong_read, strong_write };
  enum class Weak : u8 { read, write, constant_read, host_read };

  // Lanes of one warp that accessed the word at the same time.
  struct Entry {
    u32 warp;  // id of its first lane
    u32 lanes;
    u32 time;
    u32 pc;
    Strength how;
    u32 id() const { return warp + static_cast<u32>(std::countr_zero(lanes)); }
  };
  // A word read by ld.global.nc.
  struct Constant {
    u32 mask = 0;
    u32 id = 0;
    u32 pc = 0;
  };
  struct History {
    u32 mask = 0;
    std::vector<Entry> weak_reads, strong_reads, strong_writes;
    u32 latest = 0;  // index in weak_reads: the lanes of a warp read in succession
  };

  static constexpr u32 kIdMask = (1u << 26) - 1;
  static constexpr u32 kByteShift = 26;
  static constexpr u32 kHistory = 1u << 30;  // in Cell::read: the id is an index into histories_
  static constexpr u32 kSplit = 1u << 31;    // in Cell::write: the id is an index into splits_

  static u32 time_of(Epoch e) { return static_cast<u32>(e >> 32); }
  static u32 mask_of(Epoch e) { return (static_cast<u32>(e) >> kByteShift) & 15u; }
  static u32 id_of(Epoch e) { return static_cast<u32>(e) & kIdMask; }

  bool ordered(const View& view, Epoch e) const {
    u32 time = time_of(e);
    if (time < launch_start_) return true;
    u32 id = id_of(e);
    if (id == view.id()) return true;
    if (time <= view.clock->floor[block_of(id)]) return true;
    return !view.clock->extras.empty() && time <= view.clock->time_of(id);
  }
  bool ordered(const View& view, const Entry& entry) const;

  template <Weak kAccess>
  bool over(const View& view, Cell* cells, u64 first, u32 bytes) {
    Cell* cell = cells + (first >> 2);
    u32 skip = static_cast<u32>(first & 3);
    if (skip == 0) {
      if (bytes % 4 == 0 && take_own<kAccess>(view, cell, bytes / 4)) [[likely]]
        return true;
      for (; bytes >= 4; bytes -= 4) {
        if (!access_cell<kAccess>(view, *cell++, 15)) return false;
      }
      return bytes == 0 || access_cell<kAccess>(view, *cell, (1u << bytes) - 1);
    }
    return access_cell<kAccess>(view, *cell, (((1u << bytes) - 1) << skip) & 15u);
  }

  template <Weak kAccess>
  bool access_cell(const View& view, Cell& cell, u32 mask) {
    if constexpr (kAccess == Weak::read) return read_cell(view, cell, mask);
    if constexpr (kAccess == Weak::write) return write_cell(view, cell, mask);
    if constexpr (kAccess == Weak::constant_read) return constant_cell(view, cell, mask);
    if constexpr (kAccess == Weak::host_read) return host_cell(view, cell, mask);
  }

  // The fast path for whole words that no other thread has accessed in this launch, as nearly all
  // are. Returns false, and changes nothing, for other words.
  template <Weak kAccess>
  bool take_own(const View& view, Cell* cells, u32 count) {
    constexpr bool kReads = kAccess == Weak::read;
    if constexpr (!kReads && kAccess != Weak::write) return false;
    const Epoch launch = u64{launch_start_} << 32;
    const Epoch mine = view.epoch | (u64{15} << kByteShift);
    auto of_others = [&](Epoch e) { return (e >= launch) & (id_of(e ^ mine) != 0); };
    bool others = false;
    u32 flags = 0;
    for (u32 k = 0; k < count; ++k) {
      flags |= (static_cast<u32>(cells[k].write) & kSplit) |
               (static_cast<u32>(cells[k].read) & kHistory);
      others |= of_others(cells[k].write) | of_others(cells[k].read);
    }
    if (others || flags != 0) return false;
    for (u32 k = 0; k < count; ++k) {
      if constexpr (kReads) {
        cells[k].read = mine;
        cells[k].read_pc = view.pc;
      } else {
        cells[k] = {mine, 0, view.pc, 0};
      }
    }
    return true;
  }

  bool read_cell(const View& view, Cell& cell, u32 mask) {
    Epoch mine = view.epoch | (u64{mask} << kByteShift);
    if (cell.read == mine) return true;
    bool plain =
        ((static_cast<u32>(cell.write) & kSplit) | (static_cast<u32>(cell.read) & kHistory)) == 0;
    if (plain && ordered(view, cell.write) && (mask_of(cell.read) & ~mask) == 0 &&
        ordered(view, cell.read)) [[likely]] {
      cell.read = mine;
      cell.read_pc = view.pc;
      return true;
    }
    return joins_latest(view, cell, mask) || slow(view, cell, mask, Access::weak_read, {});
  }

  // True if the word has several readers and this thread's warp was the last one, at the same time.
  bool joins_latest(const View& view, const Cell& cell, u32 mask) {
    bool has_history = (static_cast<u32>(cell.read) & kHistory) != 0;
    if (!has_history || time_of(cell.read) < launch_start_) return false;
    History& history = histories_[id_of(cell.read)];
    if (history.mask != mask || !history.strong_writes.empty()) return false;
    if ((static_cast<u32>(cell.write) & kSplit) != 0 || !ordered(view, cell.write)) return false;
    if (history.latest >= history.weak_reads.size()) return false;
    Entry& e = history.weak_reads[history.latest];
    if (e.warp != (view.id() & ~31u) || e.time != time_of(view.epoch)) return false;
    e.lanes |= 1u << (view.id() & 31u);
    e.pc = view.pc;
    return true;
  }

  bool write_cell(const View& view, Cell& cell, u32 mask) {
    Epoch mine = view.epoch | (u64{mask} << kByteShift);
    bool plain =
        ((static_cast<u32>(cell.write) & kSplit) | (static_cast<u32>(cell.read) & kHistory)) == 0;
    if (plain && ((mask_of(cell.write) | mask_of(cell.read)) & ~mask) == 0 &&
        ordered(view, cell.write) && ordered(view, cell.read)) [[likely]] {
      cell.write = mine;
      cell.write_pc = view.pc;
      cell.read = 0;
      return true;
    }
    return slow(view, cell, mask, Access::weak_write, {});
  }

  bool slow(const View& view, Cell& cell, u32 mask, Access access, Strength how);
  bool slow_whole(const View& view, Cell& cell, u32 mask, Access access, Strength how);
  void forget_old(Cell& cell) const;
  void split(const View& view, Cell& cell);
  History& history_of(const View& view, Cell& cell, u32 mask);
  void release_history(Cell& cell);
  u32 new_history();
  bool all_ordered(const View& view, const std::vector<Entry>& entries, const char* what);
  bool strong_ordered(const View& view, const std::vector<Entry>& entries, Strength how,
                      const char* what);
  u32 add(std::vector<Entry>& entries, const View& view, Strength how);  // returns its index
  bool conflict(const char* what, u32 id, u32 pc, bool constant = false);

  bool host_cell(const View& view, Cell& cell, u32 mask);
  bool constant_cell(const View& view, Cell& cell, u32 mask);
  bool not_constant(Cell* cells, u64 first, u32 bytes);

  std::unordered_map<const Cell*, Constant> constants_;
  u32 latest_ = 0;
  u32 launch_start_ = 1;
  std::vector<History> histories_;
  std::vector<u32> free_histories_;
  std::vector<Cell> splits_;
  Conflict conflict_;
};

}  // namespace ptx
