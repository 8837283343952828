// The state of one thread, its warp and its block while a launch runs.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "tools/ptx_machine/error.hpp"
#include "tools/ptx_machine/instruction.hpp"
#include "tools/ptx_machine/memory.hpp"

namespace ptx {

class Launch;
struct Warp;
struct Block;

// An operation of a whole warp, executed once all its lanes have arrived.
using WarpFunction = void (*)(Warp&, u32 members);

enum class State : u8 { ready, at_barrier, at_warp_operation, exited };

// Clocks that releases and fences have prepared for the strong accesses around them.
struct SyncState {
  struct Release {
    ClockRef clock;
    u32 time = 0;
    Scope scope = Scope::cta;
    u64 word = 0;
  };
  std::array<Release, 3> fences;      // the last release fence of each scope
  std::vector<Release> words;         // what this thread released itself, by word
  ClockRef pending_gpu, pending_cta;  // read by relaxed accesses, joined by the next fence
};

// One place of a warp's register file.
struct alignas(kLanes * sizeof(u32)) Row {
  std::array<std::byte, kLanes * sizeof(u32)> bytes;
};

template <class T>
T* row_of(Row* file, u32 slot) {
  return reinterpret_cast<T*>(file + place_of(slot));
}

// One lane's column of its warp's register file.
class Registers {
 public:
  // A register of either width, read and written as 64 bits.
  class Value {
   public:
    Value(Row* file, u32 slot, u32 lane) : file_(file), slot_(slot), lane_(lane) {}
    operator u64() const {
      return is_wide(slot_) ? row_of<u64>(file_, slot_)[lane_] : row_of<u32>(file_, slot_)[lane_];
    }
    const Value& operator=(u64 value) const {
      if (is_wide(slot_)) {
        row_of<u64>(file_, slot_)[lane_] = value;
      } else {
        row_of<u32>(file_, slot_)[lane_] = static_cast<u32>(value);
      }
      return *this;
    }
    const Value& operator=(const Value& other) const { return *this = static_cast<u64>(other); }

   private:
    Row* file_;
    u32 slot_, lane_;
  };

  Registers() = default;
  Registers(Row* file, u32 lane) : file_(file), lane_(lane) {}
  Value operator[](u32 slot) const { return {file_, slot, lane_}; }

 private:
  Row* file_ = nullptr;
  u32 lane_ = 0;
};

struct Thread {
  Registers r;
  u32 pc = 0;
  bool stop = false;      // the slice ends after this instruction
  bool spinning = false;  // polls a word that does not change
  bool held = false;      // was stopped before its current access
  State state = State::ready;
  u8 lane = 0;
  u32 index = 0;  // in the block
  Block* block = nullptr;
  Warp* warp = nullptr;
  Launch* launch = nullptr;

  // Happens-before: own id and time, and what this thread knows of the others.
  Epoch epoch = 0;
  ClockRef clock;
  std::unique_ptr<SyncState> sync;

  std::byte* local = nullptr;
  u8* local_state = nullptr;

  u32 poll_pc = ~u32{0};
  u64 poll_address = 0;
  u64 poll_value = 0;

  const Instruction* pending = nullptr;  // the warp operation or barrier at which it waits
  u32 pending_mask = 0;
  WarpFunction complete = nullptr;
  u32 barrier = 0;

  u32 id() const { return static_cast<u32>(epoch) & ((1u << 26) - 1); }
  u32 time() const { return static_cast<u32>(epoch >> 32); }
  void set_time(u32 time) { epoch = (u64{time} << 32) | id(); }
  View view() const { return {epoch, clock.get(), pc - 1}; }
};

struct Warp {
  Thread* lanes = nullptr;
  Row* registers = nullptr;
  Block* block = nullptr;
  u32 count = 0;
  u32 live = 0;  // one bit per lane that has not exited
  u32 ready = 0;
  u32 spinning = 0;  // number of spinning lanes among the ready ones
  int list = -1;     // index of the scheduler's list that contains it
  u32 position = 0;  // index in that list
};

struct Barrier {
  u32 expected = 0;  // 0: every thread of the block that has not exited
  std::vector<Thread*> arrived;
};

struct Block {
  u32 index = 0;
  u32 live = 0;
  bool parked = false;  // gets no turns: frozen, or not started
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::unique_ptr<Row[]> registers;
  std::vector<std::byte> shared;
  std::vector<u8> shared_state;
  std::vector<Cell> shared_cells;
  std::vector<std::byte> local;
  std::vector<u8> local_state;
  std::array<Barrier, kBarriers> barriers;
};

// Throws with the thread's position in the text.
[[noreturn]] void fail(const Thread& thread, ErrorKind kind, const std::string& what);

}  // namespace ptx
