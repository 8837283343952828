// Incoherent caches, one per block: a store reaches other blocks when it is released or at a random
// later time, and a load may see an old value.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "tools/ptx_machine/memory.hpp"
#include "tools/ptx_machine/scheduler.hpp"

namespace ptx {

class Caches {
 public:
  Caches(u32 blocks, u64 seed) : random_(~seed), blocks_(blocks) {}

  // The block's own copy of the aligned 32 bytes that contain the access. An atomic access works on
  // memory itself.
  Region access(u32 block, Allocation& a, u64 address, u32 bytes, bool writes, bool atomic);
  // Makes the block's stores visible to the device, and with Scope::sys to the host.
  void release(u32 block, Scope scope);
  // Makes later loads of the block see at least the present state.
  void acquire(u32 block);
  // Makes a random earlier store visible, in no particular order.
  void some_arrives(u32 block);
  // Makes all stores visible. Returns false if they already were.
  bool settle();

 private:
  static constexpr u32 kLine = 32;
  static constexpr u32 kAll = ~u32{0};  // bytes of a line
  struct Line {
    u64 key = 0;  // address / 32
    Allocation* a = nullptr;
    std::array<std::byte, kLine> bytes;
    std::array<u8, kLine> state;
    u32 dirty = 0;  // one bit per byte
  };
  // A hash table with open addressing: nearly each access of a kernel looks for a line. Lines stay where they are.
  class Lines {
   public:
    Line* find(u64 key);
    Line& at(u64 key, bool* is_new);  // the line, made if it is not there
    // Keeps the lines for which keep(line) is true.
    template <class Keep>
    void keep_if(Keep keep);
    template <class Each>
    void each(Each each_line);

   private:
    u32 slot_of(u64 key) const;  // where the key's index is or belongs
    void index_again();

    std::deque<Line> lines_;
    // Indices of unused lines, which have no allocation.
    std::vector<u32> free_;
    // 0, or 1 + an index in lines_. Their number is a power of two, and at most half of them are in use.
    std::vector<u32> slots_;
  };
  struct Cache {
    Lines lines;
    // Keys of the dirty lines and perhaps of others; duplicates are possible.
    std::vector<u64> dirty;
  };

  void fill(Line& line);
  void drain(Line& line, bool to_host, u32 which = kAll);
  static void copy_dirty(Line& from, Line* to, u32 which = kAll);
  u32 some_word() { return 0xFFu << (8 * random_.below(4)); }

  Random random_;
  std::vector<Cache> blocks_;
  Cache device_;  // of host memory: stores that have reached the device but not the host
};

}  // namespace ptx
