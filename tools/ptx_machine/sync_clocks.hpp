// Clocks of synchronisation: releases leave them at a word, and acquires pick them up.
#pragma once

#include <array>
#include <unordered_map>
#include <vector>

#include "tools/ptx_machine/thread.hpp"

namespace ptx {

class SyncClocks {
 public:
  void clear() { words_.clear(); }

  // `word` identifies the location. A read-modify-write calls read, then write.
  void read(Thread& thread, u64 word, Order order, Scope scope);
  // An acquire by the host.
  void host_read(ClockRef& clock, u64 word) const;
  void write(Thread& thread, u64 word, Order order, Scope scope, bool keeps_sequence);
  void fence(Thread& thread, Scope scope);

  // Orders each of the threads after everything that any of them did. `whole_block`: they are all
  // threads of the block.
  static void meet(const std::vector<Thread*>& threads, bool whole_block);

 private:
  struct Released {
    ClockRef clock;
    u32 block = 0;
    bool one_block = true;  // only threads of `block` have released it
  };
  struct Word {
    std::array<Released, 3> by;  // [scope]
  };

  static void merge(Released& into, const ClockRef& clock, u32 block);
  static SyncState& state_of(Thread& thread);
  static void learn(ClockRef& into, const ClockRef& clock);

  std::unordered_map<u64, Word> words_;
};

}  // namespace ptx
