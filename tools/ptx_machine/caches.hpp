// Blocks with caches of their own that nothing keeps coherent: a store reaches others when it is
// released or at some random later time, and a load may see what was there before.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "tools/ptx_machine/memory.hpp"
#include "tools/ptx_machine/scheduler.hpp"

namespace ptx {

class Caches {
 public:
  Caches(u32 blocks, u64 seed) : random_(~seed), blocks_(blocks) {}

  // The block's own copy of the aligned 32 bytes in which the access lies. An atomic one works on
  // memory itself.
  Region access(u32 block, Allocation& a, u64 address, u32 bytes, bool writes, bool atomic);
  // What the block has stored so far reaches the device, with Scope::sys the host as well.
  void release(u32 block, Scope scope);
  // What the block loads from here on is no older than now.
  void acquire(u32 block);
  // Some store of the past arrives, in no order.
  void some_arrives(u32 block);
  // Everything reaches memory. False: it had already.
  bool settle();

 private:
  static constexpr u32 kLine = 32;
  static constexpr u32 kAll = ~u32{0};  // of a line's bytes
  struct Line {
    Allocation* a = nullptr;
    std::array<std::byte, kLine> bytes;
    std::array<u8, kLine> state;
    u32 dirty = 0;  // one bit per byte
  };
  struct Cache {
    std::unordered_map<u64, Line> lines;  // by address / 32
    std::vector<u64> dirty;               // which of them may be; some are named twice
  };

  void fill(Line& line, u64 key) const;
  void drain(u64 key, Line& line, bool to_host, u32 which = kAll);
  static void copy_dirty(u64 key, Line& from, Line* to, u32 which = kAll);
  u32 some_word() { return 0xFFu << (8 * random_.below(4)); }

  Random random_;
  std::vector<Cache> blocks_;
  Cache device_;  // of memory of the host: what has reached the device and not yet the host
};

}  // namespace ptx
