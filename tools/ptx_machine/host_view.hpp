// The host as one more thread, which reads while a launch runs: with loads of 8 bytes whose scope is
// the system.
#pragma once

#include <functional>

#include "tools/ptx_machine/sync_clocks.hpp"

namespace ptx {

class HostView {
 public:
  explicit HostView(Launch& launch);

  // With acquire, what was released to the whole system before the store that is read is ordered
  // before what follows. Throws MachineError{race} if nothing orders the store of a weaker kind.
  u64 load_acquire(u64 address);
  // What is read may be torn or too new, as long as it is not used: keep() throws
  // MachineError{race} if any of it since the last keep() or drop() was.
  u64 load_relaxed(u64 address);
  void keep();
  void drop() { torn_.clear(); }

 private:
  u64 load(u64 address, std::string* torn);

  Launch& launch_;
  ClockRef clock_;
  std::string torn_;
};

// Called between the turns of a launch, more often while it accesses the allocation at `address`;
// each call should do one load, so that the launch can do anything between two.
struct HostReader {
  u64 address = 0;
  std::function<void(HostView&)> step;
};

}  // namespace ptx
