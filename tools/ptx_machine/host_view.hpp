// The host as one more thread that reads during a launch, with 8-byte loads of system scope.
#pragma once

#include <functional>

#include "tools/ptx_machine/sync_clocks.hpp"

namespace ptx {

class HostView {
 public:
  explicit HostView(Launch& launch);

  // Acquires: work released to the system before the store that is read is ordered before later
  // work. Throws MachineError{race} if nothing orders a weaker store.
  u64 load_acquire(u64 address);
  // The value may be torn or too new as long as it is not used. keep() throws MachineError{race} if
  // a value since the last keep() or drop() was torn or too new.
  u64 load_relaxed(u64 address);
  void keep();
  void drop() { torn_.clear(); }

 private:
  u64 load(u64 address, std::string* torn);

  Launch& launch_;
  ClockRef clock_;
  std::string torn_;
};

// Called between the turns of a launch, and more often while it accesses the allocation at
// `address`. Each call should do one load, so that the launch can make progress between two loads.
struct HostReader {
  u64 address = 0;
  std::function<void(HostView&)> step;
};

}  // namespace ptx
