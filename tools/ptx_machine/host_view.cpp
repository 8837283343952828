// The host's loads, judged against the stores of the launch; knows clocks, cells and memory.
#include "tools/ptx_machine/host_view.hpp"

#include <cstring>

#include <fmt/format.h>

#include "tools/ptx_machine/launch.hpp"

namespace ptx {

HostView::HostView(Launch& launch) : launch_(launch), clock_(launch.start_clock()) {}

u64 HostView::load(u64 address, std::string* torn) {
  Allocation* a = launch_.memory.find(address);
  if (a == nullptr || address - a->base + 8 > a->size) {
    throw MachineError(ErrorKind::out_of_bounds,
                       fmt::format("the host's load of 8 bytes at {:#x}, {}", address,
                                   launch_.memory.describe(address)));
  }
  // An id that no thread of the grid has: block and thread are those of the last possible one.
  View view{(u64{~0u} << 32) | RaceDetector::kHostId, clock_.get(), 0};
  u64 at = address - a->base;
  if (!launch_.races.host_read(view, a->region.cells, at + a->lead, 8)) {
    const Conflict& other = launch_.races.conflict();
    *torn = fmt::format(
        "{}: the host's load of {}, which nothing orders after the {} by block {} thread {}\n  at "
        "{}",
        launch_.kernel.name, launch_.memory.describe(address), other.what, block_of(other.id),
        index_of(other.id), launch_.kernel.place(other.pc));
  }
  u64 value = 0;
  std::memcpy(&value, a->region.bytes + at, 8);
  return value;
}

u64 HostView::load_acquire(u64 address) {
  std::string torn;
  u64 value = load(address, &torn);
  if (!torn.empty()) throw MachineError(ErrorKind::race, torn);
  launch_.sync.host_read(clock_, address);
  return value;
}

u64 HostView::load_relaxed(u64 address) { return load(address, &torn_); }

void HostView::keep() {
  if (!torn_.empty()) throw MachineError(ErrorKind::race, torn_);
}

}  // namespace ptx
