// The counted cost of one turn of a streaming loop: instructions by kind, bytes in flight, cycles.
// Knows loops and the latencies that the control words do not state.
#pragma once

#include <string>
#include <vector>

#include "tools/sass/loops.hpp"

namespace stepfuse::sass {

// The cost of one turn of one thread. Divide by `elements` for the cost per element.
struct Budget {
  int elements = 0;  // elements per turn and thread; 0 if the bytes differ from the expected ones
  int instructions = 0;
  int memory = 0, floats = 0, doubles = 0, integers = 0, special = 0, control = 0;
  int calls = 0;          // calls of slow paths on the fast path
  int local = 0;          // local memory accesses, which are spills
  int narrow = 0;         // global accesses narrower than 4 bytes
  int loaded = 0;         // bytes
  int stored = 0;         // bytes
  int wide_bytes = 0;     // bytes in accesses of 16 bytes or more, loads and stores together
  int loads = 0;          // global loads
  int loads_at_once = 0;  // global loads issued before the first wait for one of them
  int bytes_at_once = 0;  // their bytes
  int issue_cycles = 0;   // stalls without any wait
  // cycles of one warp alone, including all waits except those for global loads
  int exposed_cycles = 0;

  double per_element(int n) const { return elements == 0 ? 0 : static_cast<double>(n) / elements; }
};

// The bytes that a loop is expected to move per element. `shared` is the size of block values: a
// thread reads them for its eight elements, but seldom is the one that writes them.
struct Moved {
  int read = 0, written = 0, shared = 0;
};
Budget budget_of(const Loop& loop, Moved expected);

// The loop's problems, in words that name the instruction; empty for a good loop.
std::vector<std::string> findings(const Loop& loop, const Budget& budget);

}  // namespace stepfuse::sass
